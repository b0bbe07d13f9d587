"""Words that say nothing about what a question is about."""

_ASKING = """
什么 怎么 怎样 怎么样 如何 多少 多久 多长 多大 多高 多远 多重 几 几天 几年 几次 几个 几人 几月
几号 几点 哪 哪个 哪些 哪里 哪儿 哪天 哪种 哪位 哪家 哪几 谁 何时 何地 何人 为何 为什么 是否
能否 可否 是不是 有没有 能不能 可不可以 要不要 会不会 吗 呢 吧 啊 呀 么 嘛 请问 问下 问一下
告诉 想问 知道 帮我 麻烦 谢谢 你好 您好 一下 介绍 说说 讲讲 多 时候 办
"""
_COMMON = """
的 了 是 在 有 和 与 及 或 或者 以及 并 而 但 就 都 也 还 又 再 把 被 让 给 对 对于
关于 从 到 向 于 以 为 因 因为 所以 如果 假如 要是 则 那 那么 那个 那些 这 这个 这些 这种
该 此 其 其中 它 它们 他 她 他们 我 我们 你 你们 您 咱们 自己 本 之 所 着 过 地 得 个 些
上 下 里 中 内 外 前 后 时 会 能 可以 能够 可 要 需 需要 应 应该 应当 必须 想 用 做 请
没 没有 不 不是 只 才 很 太 最 更 一 一个 一般 每 各 等 等等 来 去 说 讲 进行 通过 按
按照 根据 情况 方面 问题 规定 具体 相关 有关 目前 现在 公司 我司 咱 由 至 且 若 即 若是 算
呗 啦 如 称 属于 包括 a an the of to in is are what how
"""

QUESTION_WORDS = frozenset(_ASKING.split())
"""What makes a sentence a question."""
STOP_WORDS = frozenset(_COMMON.split())
"""What every sentence has."""
