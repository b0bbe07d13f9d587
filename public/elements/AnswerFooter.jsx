// Under an answer: what to know about it (notices), then its figures (facts).
// props: { notices: string[], facts: string[], tone: "normal" | "warning" }
import { TriangleAlert } from 'lucide-react'
import { useEffect, useRef } from 'react'

const SETTLED_MS = 200 // by then the row of buttons stands below as well
const BELOW_PX = 16 // the chat's own margin
const NEAR_PX = 160 // whoever has scrolled further up is reading something else

export default function AnswerFooter() {
  const { notices = [], facts = [], tone = 'normal' } = props
  const place = useRef(null)
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
  if (notices.length === 0 && facts.length === 0) return null
  const isWarning = tone === 'warning'

  return (
    <div ref={place} className="zhida-footer" data-tone={tone} data-testid="answer-footer">
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
