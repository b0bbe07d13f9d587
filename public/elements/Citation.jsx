// What a citation opens beside the chat: the passage, its supporting sentences marked, and the page it stands on.
// props: { number: number, name: string, place: string, headings: string[], pieces: { text: string, marked: boolean }[],
// page: number | null, isPdf: boolean, digest: string, isShared: boolean }
import { sessionIdState } from '@chainlit/react-client'
import { ChevronRight, ExternalLink, FileText } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { useRecoilValue } from 'recoil'

const WORDS = navigator.language.toLowerCase().startsWith('zh')
  ? { shared: '公共资料', own: '本对话的文件', original: '打开原文', page: '原文页面', drawing: '正在绘制原文页面…', gone: '原文页面现在看不到（文件可能已删除或替换）' }
  : { shared: 'Shared library', own: 'This chat', original: 'Open the original', page: 'The page', drawing: 'Drawing the page…', gone: 'The page cannot be shown (the file may be deleted or replaced)' }

function Page({ address, alt }) {
  const [state, setState] = useState('drawing')
  return (
    <figure className="zhida-page" data-state={state} data-testid="citation-page">
      {state !== 'gone' && <img src={address} alt={alt} onLoad={() => setState('shown')} onError={() => setState('gone')} />}
      {state !== 'shown' && <figcaption>{WORDS[state]}</figcaption>}
    </figure>
  )
}

export default function Citation() {
  const { name, place, headings = [], pieces = [], page, isPdf, digest, isShared } = props
  const session = useRecoilValue(sessionIdState)
  const first = useRef(null)
  useEffect(() => {
    first.current?.scrollIntoView({ block: 'nearest' })
  }, [])
  const marks = pieces.filter((piece) => piece.marked).map((piece) => `&mark=${encodeURIComponent(piece.text.slice(0, 300))}`)
  const query = `?session_id=${encodeURIComponent(session)}`
  const original = apiClient.buildEndpoint(`/knowledge/original/${digest}${query}`)
  const hasPicture = isPdf && page
  const picture = hasPicture && apiClient.buildEndpoint(`/knowledge/page/${digest}/${page}${query}${marks.slice(0, 8).join('')}`)
  const firstMarked = pieces.findIndex((piece) => piece.marked)
  return (
    <section className="zhida-citation" data-testid="citation">
      <header>
        <FileText aria-hidden="true" />
        <div>
          <h3 data-testid="citation-name">{name}</h3>
          <p data-testid="citation-place">{[place, isShared ? WORDS.shared : WORDS.own].filter(Boolean).join(' · ')}</p>
        </div>
      </header>
      {headings.length > 0 && (
        <p className="zhida-citation-headings" data-testid="citation-headings">
          {headings.map((heading, index) => <span key={index}>{index > 0 && <ChevronRight aria-hidden="true" />}{heading}</span>)}
        </p>
      )}
      <blockquote data-testid="citation-passage">
        {pieces.map((piece, index) => piece.marked
          ? <mark key={index} ref={index === firstMarked ? first : null}>{piece.text}</mark>
          : <span key={index}>{piece.text}</span>)}
      </blockquote>
      <a className="zhida-button" href={hasPicture ? `${original}#page=${page}` : original} target="_blank" rel="noreferrer" data-testid="citation-original">
        <ExternalLink aria-hidden="true" />{WORDS.original}
      </a>
      {picture && <Page address={picture} alt={`${WORDS.page}：${name} ${place}`} />}
    </section>
  )
}
