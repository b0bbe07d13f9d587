// Under an answer: what to know about it (notices), then its figures (facts).
// props: { notices: string[], facts: string[], tone: "normal" | "warning" }
import { TriangleAlert } from 'lucide-react'

export default function AnswerFooter() {
  const { notices = [], facts = [], tone = 'normal' } = props
  if (notices.length === 0 && facts.length === 0) return null
  const isWarning = tone === 'warning'

  return (
    <div className="zhida-footer" data-tone={tone} data-testid="answer-footer">
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
