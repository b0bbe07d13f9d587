// Under an answer: its sources, what to know about it (notices), then its figures (facts).
// props: { messageId: string, sources: { number: number, name: string, place: string }[], notices: string[],
// facts: string[], tone: "normal" | "warning" }
import { elementState, sideViewState } from '@chainlit/react-client'
import { FileText, TriangleAlert } from 'lucide-react'
import { useEffect, useRef } from 'react'
import { useRecoilValue, useSetRecoilState } from 'recoil'

const SETTLED_MS = 200 // by then the row of buttons stands below as well
const BELOW_PX = 16 // the chat's own margin
const NEAR_PX = 160 // whoever has scrolled further up is reading something else

const TITLE = navigator.language.toLowerCase().startsWith('zh') ? '资料来源' : 'Sources'

// Opens what a number of this answer cites beside the chat. Chainlit would leave the chat for it.
function useCitations(messageId, place) {
  const elements = useRecoilValue(elementState)
  const setSideView = useSetRecoilState(sideViewState)
  function open(name) {
    const element = elements.find((each) => each.forId === messageId && each.name === name)
    if (element) setSideView({ title: name, elements: [element] })
    return Boolean(element)
  }
  useEffect(() => {
    const answer = place.current?.closest('[data-step-type]')
    function click(event) {
      const link = event.target.closest?.('.element-link')
      if (!link || !open(link.textContent)) return
      event.preventDefault()
      event.stopPropagation()
    }
    answer?.addEventListener('click', click, true)
    return () => answer?.removeEventListener('click', click, true)
  })
  return open
}

function Sources({ sources, open }) {
  return (
    <ol className="zhida-sources" aria-label={TITLE} data-testid="answer-sources">
      {sources.map(({ number, name, place }) => (
        <li key={number}>
          <button type="button" onClick={() => open(`[${number}]`)} title={name} data-testid={`source-${number}`}>
            <span className="zhida-source-number">{number}</span>
            <FileText aria-hidden="true" />
            <span className="zhida-source-name">{name}</span>
            {place && <span className="zhida-source-place">{place}</span>}
          </button>
        </li>
      ))}
    </ol>
  )
}

export default function AnswerFooter() {
  const { messageId, sources = [], notices = [], facts = [], tone = 'normal' } = props
  const place = useRef(null)
  const open = useCitations(messageId, place)
  // Chainlit scrolls along with the text only: what comes below the last line would stay under the composer.
  useEffect(() => {
    const timer = setTimeout(() => {
      const chat = place.current?.closest('.overflow-y-auto')
      const answer = place.current?.closest('[data-step-type]')
      if (!chat || !answer) return
      const hidden = answer.getBoundingClientRect().bottom + BELOW_PX - chat.getBoundingClientRect().bottom
      if (hidden > 0 && hidden < NEAR_PX) chat.scrollBy({ top: hidden, behavior: 'smooth' })
    }, SETTLED_MS)
    return () => clearTimeout(timer)
  }, [])
  if (sources.length === 0 && notices.length === 0 && facts.length === 0) return null
  const isWarning = tone === 'warning'

  return (
    <div ref={place} className="zhida-footer" data-tone={tone} data-testid="answer-footer">
      {sources.length > 0 && <Sources sources={sources} open={open} />}
      {notices.map((notice, index) => (
        <div key={index} className="zhida-notice" data-testid="answer-notice">
          {isWarning && <TriangleAlert className="zhida-notice-icon" aria-hidden="true" />}
          <span>{notice}</span>
        </div>
      ))}
      {facts.length > 0 && (
        <div className="zhida-facts" data-testid="answer-facts">
          {facts.join(' · ')}
        </div>
      )}
    </div>
  )
}
