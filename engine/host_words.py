"""What the engine host says of the engine it keeps."""

from engine.base import EngineInfo, Loading
from engine.words import Words

BEGIN = Loading(Words("模型加载中", "Loading the model"))
AGAIN = Loading(Words("引擎意外停止，正在重新启动", "The engine died, starting it again"))
RECONNECTING = Loading(
    Words("与模型服务的连接中断，正在重新连接", "The connection to the model server was lost, reconnecting")
)
RESTARTING = Words("正在重新启动引擎", "Restarting the engine")
STOPPED = Words("引擎已停止。", "The engine has stopped.")
INTERNAL = Words("引擎已停止：内部错误，详见控制台。", "Internal error, see the console.")
UNDER_WAY = Words(
    "引擎正在重新启动或切换显卡配置，请等它完成后再试。",
    "The engine is being restarted or switched already; please try again when that is done.",
)


def ready(info: EngineInfo, seconds: float) -> Words:
    """What the console says when questions are answered."""
    return Words(
        f"就绪：{info.model}，上下文 {info.window} 词元，用时 {seconds:.0f} 秒",
        f"Ready: {info.model}, a window of {info.window} tokens, after {seconds:.0f} s",
    )
