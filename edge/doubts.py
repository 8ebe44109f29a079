"""What stands beside a value and makes it doubtful: another year, a range, a negation, a word such as "room".

These words are code and no data of the bundle: they only ever leave a slot empty.
"""

import re

_NEAR = 40
_NUMERAL = "(?:(?<![0-9])[0-9]{1,2}|[一二三四五六七八九十])"
_BEFORE_MOMENT = re.compile(
    # A year that the date did not take in: 25年, 两年前的, 大(前年6月), 2024 june, two years ago in june
    "年(?![假会终货报资金薪纪])[^0-9月]{0,4}$|大$|(?<![0-9])(?:19|2[0-9])[0-9]{2},? ?(?:的 ?)?$|[0-9][./]$"
    "|(?<![a-z])(?:years?|yrs?)(?:'s)?(?: ago| before last| earlier| back)?,?(?: in| of)? $"
    # A range or a list that begins with a bare number: 6-8月, 6到8月
    f"|{_NUMERAL} ?(?:[-~\u2013\u2014/、&到至和与及]|(?:to|and|or) ) ?$"
    # A negation or an exclusion
    "|(?:除了?|除去|除开|不是|不要|不看|不算|不含|不包括|排除|别|非)[的在]? ?$"
    "|(?:n't|(?<![a-z])(?:not|never|no|without|except|excluding|besides|apart from|other than"
    "|(?:all|every|any)[a-z]* but))"
    "(?: for| in| on| from| of| the| my| want| need)* $"
)
_AFTER_MOMENT = re.compile(
    "(?<=[a-z]),? ?(?:of |in |from )?(?:[0-9]{4}(?![0-9])|[0-9]{2}(?![0-9:]| ?[ap][.]?m))"
    "|,? ?(?:of |in |from )?['\u2019][0-9]|[,.]?(?: [a-z0-9']+){0,4} (?:years?|yrs?)(?![a-z])"
    "|(?:,? the one)? (?:before|after) (?:last|next|that)(?![a-z])"
    "|[^0-9月]{0,2}(?:[0-9]+|大?[前去明后])年"
    f"|月?份? ?(?:[-~\u2013\u2014到至]|(?:to|through) ) ?{_NUMERAL}"
    "|份?的?(?:以外|之外|除外|不算|不要)| (?:excluded|excepted)(?![a-z])"
)
_LIKE_A_YEAR = re.compile("199[0-9]|20[0-2][0-9]|203[0-5]")
_LIKE_A_DAY = re.compile("(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])")
_LIKE_A_MOBILE = re.compile("1[0-9]{10}")
_NO_ID_BEFORE = re.compile(
    "(?:(?<![a-z])(?:room|rm|pin|zip|postcode|postal|post code|phone|telephone|tel|mobile|cell|ext|extension"
    "|password|passcode|verification code|floor|flat|apartment|apt)"
    "|房间|房号|房|密码|邮编|邮政编码|电话|手机|验证码|分机)"
    "(?: ?(?:code|number|no[.]?|is|号码?|是|为))* ?[:#]? ?$"
)
_NO_ID_AFTER = re.compile(" ?号?(?:房|室|楼)")
_MINUS = re.compile("[-\u2212][$€£¥]?$|^[-\u2212] [$€£¥]?$|(?<![a-z])(?:minus|negative) [$€£¥]?$|负 ?$")


def of_moment(text: str, start: int, end: int) -> bool:
    """Whether a month or a day of the calendar is doubtful by what stands directly beside it."""
    before = _BEFORE_MOMENT.search(text[max(0, start - _NEAR) : start])
    return before is not None or _AFTER_MOMENT.match(text, end, end + _NEAR) is not None


def looks_like_no_id(digits: str) -> bool:
    """Whether digits may as well be a year, a day or a mobile number."""
    return any(form.fullmatch(digits) for form in (_LIKE_A_YEAR, _LIKE_A_DAY, _LIKE_A_MOBILE))


def is_called_no_id(text: str, start: int, end: int) -> bool:
    """Whether the text says itself that digits are those of a room, a phone, a password."""
    before = _NO_ID_BEFORE.search(text[max(0, start - _NEAR) : start])
    return before is not None or _NO_ID_AFTER.match(text[end : end + _NEAR]) is not None


def is_negative(text: str, start: int) -> bool:
    """Whether a minus stands before a numeral; a dash between spaces is none."""
    return _MINUS.search(text, max(0, start - 12), start) is not None
