// The strip above the page: loading, stopped, disconnected, or the demo model speaking.
// It polls health/ready, whose JSON is { state, message: {zh, en} | null, fraction: 0..1 | null, demo: {zh, en} | null,
// warnings: {zh, en}[] }, the last for those who answer for the engine alone;
// a 503 carries the same JSON. Runs before the application's own script (both are deferred, this one is first).
(() => {
  'use strict'

  const HERE = document.currentScript.src
  const BASE = new URL('..', HERE) // .../public/status.js -> where the app is served
  const LANGUAGE = navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en'
  const DISMISSED_KEY = 'zhida-demo-dismissed'
  const THEME_KEY = 'vite-ui-theme' // Chainlit's own
  const NEXT_POLL_MS = { loading: 1000, ready: 15000, dead: 3000 }
  const RETRY_MS = 2000
  const TIMEOUT_MS = 5000
  const FAILURES_SHOWN = 2
  const WORDS = {
    zh: {
      loading: '模型加载中…',
      dead: '引擎已停止。',
      lost: '与服务器的连接断开，正在重试…',
      dismiss: '知道了'
    },
    en: {
      loading: 'Loading the model…',
      dead: 'The engine has stopped.',
      lost: 'Disconnected from the server, trying again…',
      dismiss: 'Got it'
    }
  }[LANGUAGE]

  // So that Chinese glyphs are the Chinese ones, and the theme is the system's until the user picks another.
  document.documentElement.lang = LANGUAGE === 'zh' ? 'zh-CN' : 'en'
  if (!localStorage.getItem(THEME_KEY)) localStorage.setItem(THEME_KEY, 'system')

  if (!window.isSecureContext) {
    const clipboard = document.createElement('script')
    clipboard.src = new URL('clipboard.js', HERE)
    document.head.append(clipboard)
  }

  const strip = make('div', 'zhida-strip', 'status-strip')
  const text = make('span', 'zhida-strip-text', 'status-text')
  const dismiss = make('button', 'zhida-strip-dismiss', 'status-dismiss')
  const bar = make('div', 'zhida-strip-bar', 'status-progress')
  let failures = 0
  let timer = null

  function make(tag, className, testId) {
    const node = document.createElement(tag)
    node.className = className
    node.dataset.testid = testId
    return node
  }

  function build() {
    strip.hidden = true
    strip.setAttribute('role', 'status')
    strip.setAttribute('aria-live', 'polite')
    bar.setAttribute('role', 'progressbar')
    dismiss.type = 'button'
    dismiss.textContent = WORDS.dismiss
    dismiss.addEventListener('click', () => {
      sessionStorage.setItem(DISMISSED_KEY, text.textContent)
      show(null)
    })
    strip.append(text, dismiss, bar)
    document.body.prepend(strip)
    new ResizeObserver(reserve).observe(strip)
  }

  // The page below gives up exactly the strip's height (see style.css).
  function reserve() {
    const height = strip.hidden ? 0 : strip.offsetHeight
    document.documentElement.style.setProperty('--zhida-strip-height', `${height}px`)
  }

  function show(look) {
    strip.hidden = !look
    strip.dataset.kind = look ? look.kind : 'none'
    if (look) {
      if (text.textContent !== look.words) text.textContent = look.words
      dismiss.hidden = look.kind !== 'demo'
      bar.hidden = look.kind !== 'loading'
      showFraction(look.fraction)
    }
    reserve()
  }

  function showFraction(fraction) {
    const known = typeof fraction === 'number'
    bar.dataset.known = String(known)
    bar.style.setProperty('--fraction', known ? String(Math.min(1, Math.max(0, fraction))) : '0')
    if (known) bar.setAttribute('aria-valuenow', String(Math.round(fraction * 100)))
    else bar.removeAttribute('aria-valuenow')
  }

  function look(status) {
    const words = status.message ? status.message[LANGUAGE] : WORDS[status.state]
    if (status.state === 'loading') return { kind: 'loading', words, fraction: status.fraction }
    if (status.state !== 'ready') return { kind: 'warning', words }
    const demo = status.demo ? status.demo[LANGUAGE] : null
    if (status.warnings?.length) return { kind: 'warning', words: status.warnings.map((warning) => warning[LANGUAGE]).join(' ') }
    const isNews = demo && sessionStorage.getItem(DISMISSED_KEY) !== demo
    return isNews ? { kind: 'demo', words: demo } : null
  }

  async function ask() {
    const options = { cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT_MS) }
    const status = await (await fetch(new URL('health/ready', BASE), options)).json()
    if (!(status.state in NEXT_POLL_MS)) throw new TypeError(`unknown state ${status.state}`)
    return status
  }

  async function poll() {
    clearTimeout(timer)
    let next = RETRY_MS
    try {
      const status = await ask()
      failures = 0
      show(look(status))
      next = NEXT_POLL_MS[status.state]
    } catch {
      // Offline, restarting, or a proxy's error page in place of JSON: all one to the reader.
      failures += 1
      if (failures >= FAILURES_SHOWN) show({ kind: 'lost', words: WORDS.lost })
    }
    clearTimeout(timer)
    if (!document.hidden) timer = setTimeout(poll, next)
  }

  build()
  document.addEventListener('visibilitychange', () => (document.hidden ? clearTimeout(timer) : poll()))
  window.addEventListener('online', poll)
  poll()
})()
