// Browsers grant navigator.clipboard to https and localhost only; an office opens this page over plain http,
// where Chainlit's copy buttons would fail. status.js loads this file there: the older way, plain text only.
(() => {
  'use strict'

  class PlainItem {
    constructor(parts) {
      this.parts = parts
    }
  }

  async function writeText(text) {
    const area = document.createElement('textarea')
    area.value = text
    area.style.cssText = 'position: fixed; opacity: 0'
    area.setAttribute('aria-hidden', 'true')
    document.body.append(area)
    area.select()
    const done = document.execCommand('copy')
    area.remove()
    if (!done) throw new DOMException('copy refused', 'NotAllowedError')
  }

  async function write([item]) {
    await writeText(await item.parts['text/plain'].text())
  }

  window.ClipboardItem = PlainItem
  Object.defineProperty(navigator, 'clipboard', { value: { write, writeText } })
})()
