// The engine's state, live: fetched from engine/status every two seconds while it can be seen.
// props: { mayControl: boolean, profiles: { name: string, title: string }[] }
import { RotateCcw, TriangleAlert } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'

const REFRESH_MS = 2000
const TIMEOUT_MS = 5000
const GAP_S = 16 // samples further apart than this have something else between them: a restart
const GIB = 1024 ** 3
const LANGUAGE = navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en'
const WORDS = {
  zh: {
    title: '引擎状态', none: '无数据', lost: '连不上服务器，正在重试…（下面是最后一次的数据）', waiting: '正在读取…',
    ready: '就绪', loading: '加载中', dead: '已停止', up: '已运行',
    running: '正在回答', queued: '排队', speed: '生成速度', first: '首字 P50 / P95', kv: 'KV 缓存',
    gpuMemory: '显存', gpuBusy: 'GPU 利用率', memory: '内存（含引擎）', cpu: 'CPU 利用率', preemptions: 'KV 不足被抢占',
    errors: '出错', refused: '因满员拒绝', of: '上限', tokensS: '词元/秒', times: '次',
    model: '模型', window: '上下文', tokens: '词元', profile: '显卡配置', elsewhere: '由模型服务决定', engine: '引擎内部',
    engineLoad: (running, waiting) => `运行 ${running}，等待 ${waiting}`,
    chartSpeed: '生成速度（词元/秒）', chartLoad: '正在回答', chartQueue: '排队', ago: '15 分钟前', now: '现在',
    restart: '重新启动引擎', reconnect: '重新连接模型服务', switchTo: '切换显卡配置…', note: '出错、拒绝与首字：最近 15 分钟'
  },
  en: {
    title: 'Engine status', none: 'no data', lost: 'The server cannot be reached, trying again… (last known figures below)',
    waiting: 'Reading…', ready: 'Ready', loading: 'Loading', dead: 'Stopped', up: 'up',
    running: 'Answering', queued: 'Queued', speed: 'Speed', first: 'First token P50 / P95', kv: 'KV cache',
    gpuMemory: 'GPU memory', gpuBusy: 'GPU use', memory: 'Memory (with engine)', cpu: 'CPU use', preemptions: 'Preemptions',
    errors: 'Errors', refused: 'Refused, full', of: 'of', tokensS: 'tokens/s', times: '',
    model: 'Model', window: 'window', tokens: 'tokens', profile: 'GPU profile', elsewhere: 'Decided by the model server',
    engine: 'Inside the engine', engineLoad: (running, waiting) => `${running} running, ${waiting} waiting`,
    chartSpeed: 'Speed (tokens/s)', chartLoad: 'Answering', chartQueue: 'Queued', ago: '15 min ago', now: 'now',
    restart: 'Restart the engine', reconnect: 'Reconnect to the model server', switchTo: 'Switch the profile…',
    note: 'Errors, refusals and first tokens: last 15 minutes'
  }
}[LANGUAGE]

const isKnown = (value) => value !== null && value !== undefined
const seconds = (value) => (isKnown(value) ? `${value < 10 ? value.toFixed(2) : value.toFixed(1)} s` : WORDS.none)
const percent = (value) => (isKnown(value) ? `${(value * 100).toFixed(value > 0 && value < 0.1 ? 1 : 0)}%` : WORDS.none)
const gib = (value) => (isKnown(value) ? `${(value / GIB).toFixed(1)} GiB` : WORDS.none)
const speak = (words) => (words ? words[LANGUAGE] : '')

function duration(total) {
  const [hours, minutes] = [Math.floor(total / 3600), Math.floor((total % 3600) / 60)]
  if (LANGUAGE === 'en') return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min` : `${Math.floor(total)} s`
  return hours ? `${hours} 小时 ${minutes} 分` : minutes ? `${minutes} 分` : `${Math.floor(total)} 秒`
}

// The newest status, or the last one and `isLost`. Asks only while `place` is on a visible screen.
function useStatus(place) {
  const [state, setState] = useState({ status: null, isLost: false })
  useEffect(() => {
    let [timer, inView, isOver] = [null, false, false]
    const isSeen = () => inView && !document.hidden && !isOver
    async function ask() {
      clearTimeout(timer)
      try {
        const options = { cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT_MS) }
        const answer = await fetch(apiClient.buildEndpoint('/engine/status'), options)
        if (!answer.ok) throw new TypeError(`status ${answer.status}`)
        const status = await answer.json()
        if (!isOver) setState({ status, isLost: false })
      } catch {
        // Offline, restarting, or a proxy's error page in place of JSON: all one to the reader.
        if (!isOver) setState((last) => ({ ...last, isLost: true }))
      }
      clearTimeout(timer)
      if (isSeen()) timer = setTimeout(ask, REFRESH_MS)
    }
    const look = () => (isSeen() ? ask() : clearTimeout(timer))
    const observer = new IntersectionObserver((entries) => {
      inView = entries[entries.length - 1].isIntersecting
      look()
    })
    observer.observe(place.current)
    document.addEventListener('visibilitychange', look)
    return () => {
      isOver = true
      clearTimeout(timer)
      observer.disconnect()
      document.removeEventListener('visibilitychange', look)
    }
  }, [])
  return state
}

function Tile({ id, label, value, extra, share, isScarce = false }) {
  const isUnknown = value === WORDS.none
  return (
    <div className="zhida-tile" data-testid={`console-${id}`}>
      <div className="zhida-tile-label">{label}</div>
      <div className="zhida-tile-value" data-unknown={isUnknown}>
        {value}
        {extra && !isUnknown && <span className="zhida-tile-extra"> {extra}</span>}
      </div>
      {isKnown(share) && (
        <div className="zhida-tile-bar" data-full={isScarce && share > 0.95}>
          <div style={{ width: `${Math.min(100, share * 100)}%` }} />
        </div>
      )}
    </div>
  )
}

// Lines over the last `span` seconds; `series` is [{ column, kind, present }], columns of the points [age, …] and now's value.
function Chart({ id, title, points, span, series }) {
  const [width, height] = [600, 96]
  const highest = Math.max(0, ...series.flatMap(({ column, present }) => [present ?? 0, ...points.map((point) => point[column] ?? 0)]))
  const top = Math.max(1, highest)
  const x = (age) => ((span + age) / span) * width
  const y = (value) => height - 2 - (value / top) * (height - 6)
  function path(column) {
    let [drawn, last] = ['', null]
    for (const point of points) {
      if (!isKnown(point[column])) {
        last = null
        continue
      }
      const joins = last !== null && point[0] - last <= GAP_S
      drawn += `${joins ? 'L' : 'M'}${x(point[0]).toFixed(1)},${y(point[column]).toFixed(1)}`
      if (!joins) drawn += 'h0.01'
      last = point[0]
    }
    return drawn
  }
  return (
    <figure className="zhida-chart" data-testid={`console-chart-${id}`}>
      <figcaption>
        {title}
        <span className="zhida-chart-top">{points.length > 0 ? `${LANGUAGE === 'zh' ? '最高' : 'peak'} ${Math.round(highest)}` : WORDS.none}</span>
      </figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={`${id}: ${Math.round(highest)}`}>
        <line className="zhida-chart-base" x1="0" x2={width} y1={height - 1} y2={height - 1} />
        <line className="zhida-chart-base" x1="0" x2={width} y1={height / 2} y2={height / 2} strokeDasharray="2 6" />
        {series.map(({ column, kind }) => <path key={kind} d={path(column)} data-kind={kind} />)}
      </svg>
      <div className="zhida-chart-axis"><span>{WORDS.ago}</span><span>{WORDS.now}</span></div>
    </figure>
  )
}

function Tiles({ status }) {
  const { gpu } = status
  const engine = status.on_gpu || status.elsewhere
    ? [
        <Tile key="gm" id="gpu-memory" label={WORDS.gpuMemory} value={gpu ? gib(gpu.used) : WORDS.none} extra={gpu && `/ ${gib(gpu.total)}`} share={gpu && gpu.used / gpu.total} />,
        <Tile key="gb" id="gpu-busy" label={WORDS.gpuBusy} value={gpu ? percent(gpu.busy) : WORDS.none} share={gpu?.busy} />
      ]
    : [
        <Tile key="m" id="memory" label={WORDS.memory} value={gib(status.memory)} />,
        <Tile key="c" id="cpu" label={WORDS.cpu} value={percent(status.cpu_use)} share={status.cpu_use} />
      ]
  const first = isKnown(status.first_p50) ? `${seconds(status.first_p50).slice(0, -2)} / ${seconds(status.first_p95)}` : WORDS.none
  const speed = isKnown(status.tokens_s) ? Math.round(status.tokens_s) : WORDS.none
  const share = status.ended > 0 ? status.failed / status.ended : null
  return (
    <div className="zhida-tiles">
      <Tile id="running" label={WORDS.running} value={status.running} extra={`/ ${status.concurrent}`} share={status.running / status.concurrent} />
      <Tile id="queued" label={WORDS.queued} value={status.queued} extra={`/ ${status.max_queued}`} />
      <Tile id="speed" label={WORDS.speed} value={speed} extra={WORDS.tokensS} />
      <Tile id="first" label={WORDS.first} value={first} />
      <Tile id="kv" label={WORDS.kv} value={percent(status.kv_use)} share={status.kv_use} isScarce />
      {engine}
      <Tile id="preemptions" label={WORDS.preemptions} value={isKnown(status.preemptions) ? status.preemptions : WORDS.none} extra={WORDS.times} />
      <Tile id="errors" label={WORDS.errors} value={isKnown(share) ? status.failed : WORDS.none} extra={isKnown(share) ? `/ ${status.ended}（${percent(share)}）` : ''} />
      <Tile id="refused" label={WORDS.refused} value={status.refused} extra={WORDS.times} />
    </div>
  )
}

function Facts({ status }) {
  const { profile } = status
  const hasLoad = isKnown(status.engine_running) && isKnown(status.engine_waiting)
  return (
    <dl className="zhida-console-facts">
      <dt>{WORDS.model}</dt>
      <dd data-testid="console-model">{status.model ? `${status.model} · ${WORDS.window} ${status.window} ${WORDS.tokens}` : WORDS.none}</dd>
      <dt>{WORDS.profile}</dt>
      <dd data-testid="console-profile">
        {profile ? <><b>{profile.title}</b>{LANGUAGE === 'zh' ? '：' : ': '}{speak(profile.reason)}</> : status.elsewhere ? WORDS.elsewhere : WORDS.none}
      </dd>
      <dt>{WORDS.engine}</dt>
      <dd>{hasLoad ? WORDS.engineLoad(status.engine_running, status.engine_waiting) : WORDS.none}</dd>
    </dl>
  )
}

function Controls({ status }) {
  const [isBusy, setBusy] = useState(false)
  async function call(name, payload) {
    setBusy(true)
    try {
      await callAction({ name, payload })
    } finally {
      setBusy(false)
    }
  }
  const { profiles = [] } = props
  return (
    <div className="zhida-console-controls">
      {profiles.length > 0 && (
        <select aria-label={WORDS.switchTo} data-testid="console-switch" disabled={isBusy} value="" onChange={(event) => call('ask_switch', { profile: event.target.value })}>
          <option value="" disabled>{WORDS.switchTo}</option>
          {profiles.map(({ name, title }) => <option key={name} value={name} disabled={name === status.wanted}>{title}</option>)}
        </select>
      )}
      <button type="button" data-testid="console-restart" disabled={isBusy} onClick={() => call('ask_restart', {})}>
        <RotateCcw aria-hidden="true" />
        {status.elsewhere ? WORDS.reconnect : WORDS.restart}
      </button>
    </div>
  )
}

export default function EngineConsole() {
  const place = useRef(null)
  const { status, isLost } = useStatus(place)
  const step = status && status.state === 'loading' && isKnown(status.fraction) ? ` ${Math.round(status.fraction * 100)}%` : ''
  const load = <><i data-kind="running" />{WORDS.chartLoad} <i data-kind="queued" />{WORDS.chartQueue}</>
  return (
    <section ref={place} className="zhida-console" data-testid="engine-console" data-lost={isLost} aria-label={WORDS.title}>
      <header>
        <h2>{WORDS.title}</h2>
        {status && <span className="zhida-console-state" data-state={isLost ? 'lost' : status.state} data-testid="console-state">{WORDS[status.state]}{step}</span>}
        {status && isKnown(status.uptime_s) && <span className="zhida-console-uptime" data-testid="console-uptime">{WORDS.up} {duration(status.uptime_s)}</span>}
      </header>
      {isLost && <div className="zhida-console-warning" data-testid="console-lost"><TriangleAlert aria-hidden="true" />{WORDS.lost}</div>}
      {!status && !isLost && <div className="zhida-console-note">{WORDS.waiting}</div>}
      {status && (
        <>
          {status.message && <div className="zhida-console-note" data-testid="console-message">{speak(status.message)}</div>}
          {status.warnings.map((warning) => (
            <div key={warning.en} className="zhida-console-warning" data-testid="console-warning"><TriangleAlert aria-hidden="true" />{speak(warning)}</div>
          ))}
          <Tiles status={status} />
          <div className="zhida-charts">
            <Chart id="speed" title={WORDS.chartSpeed} points={status.points} span={status.span_s} series={[{ column: 1, kind: 'speed', present: status.tokens_s }]} />
            <Chart id="load" title={load} points={status.points} span={status.span_s} series={[{ column: 2, kind: 'running', present: status.running }, { column: 3, kind: 'queued', present: status.queued }]} />
          </div>
          <Facts status={status} />
          {props.mayControl && <Controls status={status} />}
          <div className="zhida-console-note">{WORDS.note}</div>
        </>
      )}
    </section>
  )
}
