// The files that this chat may ask: its own, and the shared library's.
// props: { files: { origin, name, size, pages, passages, addedAt, warnings: string[], shared: boolean, digest }[],
// mayEdit: boolean, error: string }
import { sessionIdState } from '@chainlit/react-client'
import { Check, Download, Library, RefreshCw, Share2, Trash2, TriangleAlert, X } from 'lucide-react'
import { useState } from 'react'
import { useRecoilValue } from 'recoil'

const IS_CHINESE = navigator.language.toLowerCase().startsWith('zh')
const WORDS = IS_CHINESE
  ? {
      title: '资料', own: '本对话的文件', shared: '公共资料库', ownHint: '只有这个对话能用，对话结束时删除', sharedHint: '所有人都能问',
      ownEmpty: '还没有。把文件拖到页面上，或点输入框旁的回形针。', sharedEmpty: '还没有。在服务器上运行 python -m knowledge add 文件夹。',
      pages: '页', passages: '段', remove: '删除', share: '加入公共资料库', sure: '确认删除', sureShare: '确认加入', keep: '取消', open: '下载原文', again: '刷新',
      failed: '没有成功，请再试一次。'
    }
  : {
      title: 'Documents', own: 'Files of this chat', shared: 'Shared library', ownHint: 'For this chat alone; deleted with it', sharedHint: 'Everybody may ask them',
      ownEmpty: 'None yet. Drop files onto the page, or use the paper clip.', sharedEmpty: 'None yet. Run python -m knowledge add FOLDER on the server.',
      pages: 'pages', passages: 'passages', remove: 'Delete', share: 'Add to the shared library', sure: 'Delete it', sureShare: 'Add it', keep: 'Cancel', open: 'Download', again: 'Refresh',
      failed: 'That failed, please try again.'
    }

function extent(name, pages) {
  if (!pages) return ''
  if (/\.xls[xm]$/i.test(name)) return IS_CHINESE ? `${pages} 个工作表` : `${pages} sheets`
  return `${pages} ${WORDS.pages}`
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} B`
  return bytes < 1024 ** 2 ? `${Math.round(bytes / 1024)} KB` : `${(bytes / 1024 ** 2).toFixed(1)} MB`
}

function when(iso) {
  const date = new Date(iso)
  return isNaN(date) ? '' : date.toLocaleString(IS_CHINESE ? 'zh-CN' : 'en', { month: 'numeric', day: 'numeric', hour: '2-digit', minute: '2-digit' })
}

function Row({ file, mayEdit, isBusy, act }) {
  const session = useRecoilValue(sessionIdState)
  const [asked, setAsked] = useState(null) // what is to be confirmed: "remove_file" or "share_file"
  const facts = [size(file.size), extent(file.name, file.pages), `${file.passages} ${WORDS.passages}`, when(file.addedAt)].filter(Boolean)
  const original = apiClient.buildEndpoint(`/knowledge/original/${file.digest}?session_id=${encodeURIComponent(session)}`)
  const button = (name, label, Icon) => (
    <button type="button" title={label} aria-label={`${label}：${file.name}`} disabled={isBusy} onClick={() => setAsked(name)} data-testid={name}><Icon aria-hidden="true" /></button>
  )
  return (
    <li className="zhida-file" data-testid="shelf-file" data-shared={file.shared}>
      <div className="zhida-file-main">
        <div className="zhida-file-name" title={file.name}>{file.name}</div>
        <div className="zhida-file-facts">{facts.join(' · ')}</div>
        {file.warnings.map((warning, index) => <div key={index} className="zhida-file-note" data-tone="warning">{warning}</div>)}
      </div>
      {asked
        ? <div className="zhida-shelf-buttons" role="alertdialog" aria-label={asked === 'remove_file' ? WORDS.sure : WORDS.sureShare}>
            <button type="button" className="zhida-sure" data-kind={asked} disabled={isBusy} autoFocus data-testid="shelf-sure" onClick={() => { setAsked(null); act(asked, { origin: file.origin, shared: file.shared }) }}>
              <Check aria-hidden="true" />{asked === 'remove_file' ? WORDS.sure : WORDS.sureShare}
            </button>
            <button type="button" title={WORDS.keep} aria-label={WORDS.keep} onClick={() => setAsked(null)}><X aria-hidden="true" /></button>
          </div>
        : <div className="zhida-shelf-buttons">
            <a href={original} target="_blank" rel="noreferrer" title={WORDS.open} aria-label={`${WORDS.open}：${file.name}`}><Download aria-hidden="true" /></a>
            {mayEdit && !file.shared && button('share_file', WORDS.share, Share2)}
            {(mayEdit || !file.shared) && button('remove_file', WORDS.remove, Trash2)}
          </div>}
    </li>
  )
}

function Shelf({ title, hint, empty, files, ...rest }) {
  return (
    <div className="zhida-shelf-part">
      <h3>{title} <span>{files.length > 0 ? files.length : ''}</span><small>{hint}</small></h3>
      {files.length > 0
        ? <ul>{files.map((file) => <Row key={file.origin} file={file} {...rest} />)}</ul>
        : <p className="zhida-files-note">{empty}</p>}
    </div>
  )
}

export default function LibraryShelf() {
  const [isBusy, setBusy] = useState(false)
  const [hasFailed, setFailed] = useState(false)
  // The server sends this element anew with every change: a list kept here would fall behind.
  async function act(name, payload) {
    setBusy(true)
    try {
      await callAction({ name, payload })
      setFailed(false)
    } catch {
      setFailed(true)
    } finally {
      setBusy(false)
    }
  }
  const { files = [], mayEdit } = props
  const error = hasFailed ? WORDS.failed : props.error
  const rest = { mayEdit, isBusy, act }
  return (
    <section className="zhida-files zhida-shelf" data-testid="shelf" aria-label={WORDS.title}>
      <header>
        <Library aria-hidden="true" />
        <h2>{WORDS.title}</h2>
        <button type="button" title={WORDS.again} aria-label={WORDS.again} disabled={isBusy} onClick={() => act('list_files', {})}><RefreshCw aria-hidden="true" /></button>
      </header>
      {error && <p className="zhida-console-warning" data-testid="shelf-error"><TriangleAlert aria-hidden="true" />{error}</p>}
      <Shelf title={WORDS.own} hint={WORDS.ownHint} empty={WORDS.ownEmpty} files={files.filter((file) => !file.shared)} {...rest} />
      <Shelf title={WORDS.shared} hint={WORDS.sharedHint} empty={WORDS.sharedEmpty} files={files.filter((file) => file.shared)} {...rest} />
    </section>
  )
}
