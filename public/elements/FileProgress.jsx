// How far the files of a message are: 读取 → 切分 → 建索引 → 可用, or why one is not read.
// props: { files: { name, size, stage, share: 0..1 | null, pages, passages, notes: string[] }[], note: string }
import { CircleCheck, CircleSlash, CircleX, FileText, LoaderCircle } from 'lucide-react'

const IS_CHINESE = navigator.language.toLowerCase().startsWith('zh')
const STEPS = ['reading', 'splitting', 'indexing', 'ready']
const WORDS = IS_CHINESE
  ? { waiting: '等待中', reading: '读取', splitting: '切分', indexing: '建索引', ready: '可用', refused: '没有读取', stopped: '已停止', pages: '页', passages: '段' }
  : { waiting: 'Waiting', reading: 'Reading', splitting: 'Splitting', indexing: 'Indexing', ready: 'Ready', refused: 'Not read', stopped: 'Stopped', pages: 'pages', passages: 'passages' }
const ICONS = { ready: CircleCheck, refused: CircleX, stopped: CircleSlash, waiting: FileText }

function extent(name, pages) {
  if (!pages) return ''
  if (/\.xls[xm]$/i.test(name)) return IS_CHINESE ? `${pages} 个工作表` : `${pages} sheets`
  return `${pages} ${WORDS.pages}`
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} B`
  return bytes < 1024 ** 2 ? `${Math.round(bytes / 1024)} KB` : `${(bytes / 1024 ** 2).toFixed(1)} MB`
}

function File({ file }) {
  const { name, stage, share, pages, passages, notes } = file
  const Icon = ICONS[stage] ?? LoaderCircle
  const reached = STEPS.indexOf(stage)
  const isMoving = reached >= 0 && stage !== 'ready'
  const facts = [size(file.size), extent(name, pages), passages !== null && `${passages} ${WORDS.passages}`].filter(Boolean)
  const percent = share !== null && share !== undefined && isMoving ? ` ${Math.round(share * 100)}%` : ''
  return (
    <li className="zhida-file" data-stage={stage} data-testid="file">
      <Icon className="zhida-file-icon" aria-hidden="true" />
      <div className="zhida-file-main">
        <div className="zhida-file-name" title={name} data-testid="file-name">{name}</div>
        <div className="zhida-file-facts">{facts.join(' · ')}</div>
        {notes.map((note, index) => <div key={index} className="zhida-file-note" data-testid="file-note">{note}</div>)}
      </div>
      {isMoving
        ? <ol className="zhida-steps" aria-label={WORDS[stage]}>
            {STEPS.map((step, index) => <li key={step} data-state={index < reached ? 'done' : index === reached ? 'now' : 'later'}>{WORDS[step]}{index === reached && percent}</li>)}
          </ol>
        : <span className="zhida-file-stage" data-testid="file-stage">{WORDS[stage]}</span>}
    </li>
  )
}

export default function FileProgress() {
  const { files = [], note } = props
  return (
    <section className="zhida-files" data-testid="file-progress" aria-live="polite">
      <ul>{files.map((file, index) => <File key={index} file={file} />)}</ul>
      {note && <p className="zhida-files-note" data-testid="files-note">{note}</p>}
    </section>
  )
}
