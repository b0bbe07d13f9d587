"""What the page says, in Chinese and in English."""

from engine.limits import Place
from engine.words import Words
from knowledge.base import Locator

PLACEHOLDER = "思考中..."
"""Shown in the answer's place at once, whatever the language: scripts look for it."""
THINKING = Words(PLACEHOLDER, PLACEHOLDER)

SYSTEM_PROMPT = Words(
    "你是知答，一名办公室里的中文助手。请直接、准确、简洁地回答；不知道的就说不知道。",
    "You are Zhida, an office assistant. Answer directly, accurately and briefly; say so when you do not know.",
)

EMPTY_QUESTION = Words("请输入问题后再发送。", "Please type a question first.")
LOST_QUESTION = Words("找不到要修改的问题，请重新提问。", "That question is gone; please ask it again.")
EMPTY_ANSWER = Words("（模型没有给出任何内容，请换个说法再问一次。）", "(The model returned nothing; please rephrase.)")
INTERNAL = Words("内部错误，未能回答这个问题；详情见服务器控制台。", "Internal error; see the server's console.")
NOT_READY = Words("模型还没有就绪，请稍后再问。", "The model is not ready yet; please ask again later.")

STOPPED = Words("已停止", "Stopped")
CUT_OFF = Words("已达长度上限", "Cut off at the length limit")
DEMO_ANSWER = Words("演示模型的回答，仅供体验", "Answered by the demo model, for trying out only")
DEMO_BANNER = Words(
    "当前回答的是演示模型，仅供体验。要用 ERNIE-4.5：让本机能访问 Hugging Face 或 ModelScope 后重启，或在 .env 中把 ENGINE_MODEL 设为它的文件夹。",
    "The demo model is answering, for trying out only. For ERNIE-4.5: restart where Hugging Face or ModelScope can be "
    "reached, or set ENGINE_MODEL in .env to its folder.",
)
REGENERATE = Words("重新生成", "Regenerate")
SHARE_USED = Words(
    "您在这个对话里已有两个问题在等回答，请等其中一个答完再提问。",
    "Two questions of this chat are still unanswered; please ask again when one of them is.",
)

CONSOLE = Words("引擎状态", "Engine status")
CONSOLE_HINT = Words(
    "显示引擎的实时状态：负载、速度、显存、警告", "Show the engine live: load, speed, memory, warnings"
)
CONSOLE_SWITCH = Words("引擎状态面板", "Engine status panel")
CONSOLE_SWITCH_HINT = Words("显示在对话中，每 2 秒更新", "Shown in the chat, refreshed every 2 s")

SWITCH_YES, SWITCH_NO = Words("确认切换", "Switch"), Words("取消", "Cancel")
SWITCH_KEPT = Words("已取消，显卡配置不变。", "Cancelled; the profile stays.")
RESTART_YES = Words("确认重启", "Restart")
RESTART_KEPT = Words("已取消，引擎照常运行。", "Cancelled; the engine goes on.")
RESTART_FORBIDDEN = Words(
    "这里不允许重新启动引擎（ENGINE_ALLOW_SWITCH）。",
    "Restarting the engine is not allowed here (ENGINE_ALLOW_SWITCH).",
)
SWITCH_FORBIDDEN = Words(
    "这里不允许切换显卡配置（ENGINE_ALLOW_SWITCH）。", "Switching profiles is not allowed here (ENGINE_ALLOW_SWITCH)."
)


SEARCHING = Words("检索中…", "Searching…")
EMPTY_LIBRARY = Words(
    "资料库里还没有文件。把文件拖到这个页面（只供本对话使用），或在服务器上运行 `python -m knowledge add 文件夹`，加好后再问。",
    "The library is empty. Drop files onto this page (for this chat alone), or run `python -m knowledge add FOLDER` on "
    "the server, then ask again.",
)
NOT_ASKED = Words("资料里没有依据，没有交给模型回答", "Nothing to answer from: the model was not asked")
QUOTED = Words(
    "模型的回答没有通过核对，这里是最相关的资料原文",
    "The model's answer did not pass the check: this is the most relevant passage, word for word",
)
UNCHECKED = Words("这个回答没有核对完，请对照资料", "This answer could not be checked: compare it with the documents")
FROM_FILES = Words(
    "从现在起，这个对话只依据资料回答，和“知识助手”一样。要随便聊聊，请新建对话。",
    "From now on this chat answers from the documents only, like the knowledge assistant. For free talk, begin a new chat.",
)

SHELF = Words("资料", "Documents")
SHELF_HINT = Words("查看和管理本对话与公共资料库的文件", "The files of this chat and of the shared library")
EDIT_FORBIDDEN = Words(
    "这里不允许改动公共资料库（KNOWLEDGE_ALLOW_EDIT）。",
    "Changing the shared library is not allowed here (KNOWLEDGE_ALLOW_EDIT).",
)
GONE = Words("这个文件已经不在了。", "This file is gone already.")
INTERNAL_FILE = Words(
    "内部错误，没有读取这个文件；详情见服务器控制台。",
    "Internal error, this file was not read; see the server's console.",
)
SHARED_REPLACED = Words(
    "公共资料库里原有一个同名的文件，内容不同，已被这个替换。",
    "The shared library had another file of this name; this one has taken its place.",
)
REPLACED = Words("已替换同名的旧文件", "Replaced the older file of this name")
UNCHANGED = Words("和已有的文件完全相同", "The same as the file that is there")
EMPTY_FILE = Words(
    "文件是空的（0 字节），请检查后重新上传。", "The file is empty (0 bytes): check it and add it again."
)
LOST_UPLOAD = Words("上传没有完成，请重新添加这个文件。", "The upload is incomplete: add this file again.")
TOO_MANY_WAITING = Words(
    "等待发送的文件太多，请先发送已添加的文件。", "Too many files are waiting to be sent: send those first."
)


def marked(sentences: int) -> Words:
    """The notice of sentences that no passage supports."""
    return Words(
        f"有 {sentences} 处未在资料中找到依据，已标出，请核对",
        f"{sentences} statements have no support in the documents; they are marked",
    )


def too_many_files(limit: int) -> Words:
    """Why a file of a message is not read."""
    return Words(
        f"一次最多 {limit} 个文件，这个没有读取，请另发一条。",
        f"{limit} files at a time: this one was not read, send it again.",
    )


def too_large_file(size: int, limit: int) -> Words:
    """Sizes in bytes."""
    return Words(
        f"文件有 {size / 2**20:.0f} MB，超过 {limit / 2**20:.0f} MB 的上限，请拆成几个文件再上传。",
        f"{size / 2**20:.0f} MB: more than {limit / 2**20:.0f} MB. Split the file.",
    )


def not_read(name: str, kinds: str) -> Words:
    """A kind of file that nothing here reads."""
    return Words(f"不支持这种文件：{name}。可以上传：{kinds}。", f"Files of this kind are not read: {name}.")


def place(at: Locator) -> Words:
    """Where in its file a passage stands."""
    if at.sheet is not None:
        row = (f" 第 {at.row} 行", f", row {at.row}") if at.row else ("", "")
        return Words(f"工作表 {at.sheet}{row[0]}", f"sheet {at.sheet}{row[1]}")
    if at.page:
        return Words(f"第 {at.page} 页", f"page {at.page}")
    return Words(at.headings[-1], at.headings[-1]) if at.headings else Words("", "")


def too_long_text(size: int, limit: int) -> Words:
    """A message beyond what is even tokenized, sizes in characters."""
    return Words(
        f"内容过长：{size:,} 个字符，上限 {limit:,} 个。请缩短问题，或分几次提问。",
        f"Too long: {size:,} characters, the limit is {limit:,}. Shorten the question or split it.",
    )


def loading(step: Words, fraction: float | None, seconds: int) -> Words:
    """The state while the model loads."""
    percent = f" {fraction:.0%}" if fraction is not None else ""
    return Words(
        f"模型加载中… {step.zh}{percent} · 已用 {seconds} 秒", f"Loading the model… {step.en}{percent} · {seconds} s"
    )


def queued(place: Place) -> Words:
    """The state while waiting for a slot."""
    zh = f"前面还有 {place.in_front} 位" if place.in_front else "您是下一位"
    en = f"{place.in_front} ahead of you" if place.in_front else "you are next"
    if place.about:
        zh, en = f"{zh}，{place.about.zh}", f"{en}, {place.about.en}"
    return Words(f"排队中… {zh}", f"Queued… {en}")


def left_out(exchanges: int) -> Words:
    """The notice that history was trimmed."""
    return Words(
        f"较早的 {exchanges} 轮对话已不在上下文中", f"The {exchanges} oldest exchanges are no longer in the context"
    )


def first_token(seconds: float) -> Words:
    """Footer: time to first token."""
    return Words(f"首字 {seconds:.2f} s", f"first token {seconds:.2f} s")


def speed(tokens_per_s: float) -> Words:
    """Footer: decoding speed."""
    return Words(f"{tokens_per_s:.0f} 字元/s", f"{tokens_per_s:.0f} tokens/s")


def tokens(prompt: int, answer: int, window: int) -> Words:
    """Footer: tokens out of the window."""
    return Words(f"提示 {prompt} + 回答 {answer} / {window}", f"prompt {prompt} + answer {answer} / {window}")


def ask_switch(profile: str, reason: Words, running: int) -> Words:
    """The question before the whole engine is exchanged."""
    return Words(
        f"要把显卡配置切换为 **{profile}** 吗？{reason.zh}\n\n这会影响所有人：正在生成的回答（现在 {running} 个）最多再等 20 秒，之后会被结束；"
        "引擎要重新加载，其间的提问会等待。",
        f"Switch the GPU profile to **{profile}**? {reason.en}\n\nThis concerns everybody: answers in progress "
        f"({running} now) end after 20 s at the latest, and questions wait while the engine loads again.",
    )


def ask_restart(running: int) -> Words:
    """The question before the engine is let go and loaded again."""
    return Words(
        f"要重新启动引擎吗？\n\n这会影响所有人：正在生成的回答（现在 {running} 个）最多再等 20 秒，之后会被结束；"
        "引擎要重新加载，其间的提问会等待。",
        f"Restart the engine?\n\nThis concerns everybody: answers in progress ({running} now) end after 20 s at the latest, "
        "and questions wait while the engine loads again.",
    )


def switching(profile: str, step: Words, fraction: float | None, seconds: int) -> Words:
    """Progress of a switch."""
    state = loading(step, fraction, seconds)
    return Words(f"正在切换到 {profile}：{state.zh}", f"Switching to {profile}: {state.en}")


def in_the_background(step: Words) -> Words:
    """A switch or restart that takes long."""
    return Words(
        f"还没有完成（{step.zh}）。它在后台继续，进展见页面顶部。",
        f"Not done yet ({step.en}). It goes on in the background; see the top of the page.",
    )


def restarting(step: Words, fraction: float | None, seconds: int) -> Words:
    """Progress of a restart."""
    state = loading(step, fraction, seconds)
    return Words(f"正在重新启动：{state.zh}", f"Restarting: {state.en}")
