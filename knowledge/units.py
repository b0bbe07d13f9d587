"""Units of measure, and what else they are called."""

_TABLE = """
天 日 个自然日 自然日 号
工作日 个工作日
元 块钱 块 圆 人民币 rmb 元人民币
美元 usd 美金
小时 个小时 钟头 个钟头 h
分钟 min 分钟内
秒 秒钟 s
个月 月
周 个星期 星期 个礼拜 礼拜 个周
年 周年 个年度
季度 个季度
人 名 位 个人
次 回
公斤 千克 kg
克 g
吨 t
公里 千米 km
米 m
厘米 公分 cm
毫米 mm
平方米 平米 ㎡ m2 m²
升 l
毫升 ml
瓦 w
千瓦 kw
伏 v
gb g内存
tb
mb
毫安时 mah 毫安
英寸 寸
度 ℃ 摄氏度 °c
倍
折
分
岁
级
层 楼
台
套
件
份
张
页
本
箱
盒
个
项
%
"""
_SPOKEN = """
天 日 个工作日 工作日 元 块 块钱 小时 个小时 分钟 秒 个月 周 个星期 星期 年 周年 人 名 位 次 公斤 千克 克
吨 公里 米 厘米 平方米 升 倍 折 岁 级 层 台 套 件 份 张 页 箱 季度 个季度 个自然日 自然日 个人
"""

UNITS: dict[str, str] = {alias: names[0] for names in map(str.split, _TABLE.strip().splitlines()) for alias in names}
"""Each unit, folded, and the one name by which it is compared."""
SPOKEN_UNITS = frozenset(_SPOKEN.split())
"""After these alone are Chinese numerals figures: 一般, 万一 and 一个 are not."""
