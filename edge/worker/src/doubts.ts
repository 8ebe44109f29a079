// What stands beside a value and makes it doubtful (edge/doubts.py): these words only ever leave a slot empty.

import { back, forth } from "./unicode";

const NEAR = 40;
const NUMERAL = "(?:(?<![0-9])[0-9]{1,2}|[一二三四五六七八九十])";

/** The patterns, letter for letter those of edge/doubts.py: a test compares them. */
export const PATTERNS = {
  _BEFORE_MOMENT:
    // A year that the date did not take in: 25年, 两年前的, 大(前年6月), 2024 june, two years ago in june
    "年(?![假会终货报资金薪纪])[^0-9月]{0,4}$|大$|(?<![0-9])(?:19|2[0-9])[0-9]{2},? ?(?:的 ?)?$|[0-9][./]$" +
    "|(?<![a-z])(?:years?|yrs?)(?:'s)?(?: ago| before last| earlier| back)?,?(?: in| of)? $" +
    // A range or a list that begins with a bare number: 6-8月, 6到8月
    `|${NUMERAL} ?(?:[-~\u2013\u2014/、&到至和与及]|(?:to|and|or) ) ?$` +
    // A negation or an exclusion
    "|(?:除了?|除去|除开|不是|不要|不看|不算|不含|不包括|排除|别|非)[的在]? ?$" +
    "|(?:n't|(?<![a-z])(?:not|never|no|without|except|excluding|besides|apart from|other than" +
    "|(?:all|every|any)[a-z]* but))" +
    "(?: for| in| on| from| of| the| my| want| need)* $",
  _AFTER_MOMENT:
    "(?<=[a-z]),? ?(?:of |in |from )?(?:[0-9]{4}(?![0-9])|[0-9]{2}(?![0-9:]| ?[ap][.]?m))" +
    "|,? ?(?:of |in |from )?['\u2019][0-9]|[,.]?(?: [a-z0-9']+){0,4} (?:years?|yrs?)(?![a-z])" +
    "|(?:,? the one)? (?:before|after) (?:last|next|that)(?![a-z])" +
    "|[^0-9月]{0,2}(?:[0-9]+|大?[前去明后])年" +
    `|月?份? ?(?:[-~\u2013\u2014到至]|(?:to|through) ) ?${NUMERAL}` +
    "|份?的?(?:以外|之外|除外|不算|不要)| (?:excluded|excepted)(?![a-z])",
  _LIKE_A_YEAR: "199[0-9]|20[0-2][0-9]|203[0-5]",
  _LIKE_A_DAY: "(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])",
  _LIKE_A_MOBILE: "1[0-9]{10}",
  _NO_ID_BEFORE:
    "(?:(?<![a-z])(?:room|rm|pin|zip|postcode|postal|post code|phone|telephone|tel|mobile|cell|ext|extension" +
    "|password|passcode|verification code|floor|flat|apartment|apt)" +
    "|房间|房号|房|密码|邮编|邮政编码|电话|手机|验证码|分机)" +
    "(?: ?(?:code|number|no[.]?|is|号码?|是|为))* ?[:#]? ?$",
  _NO_ID_AFTER: " ?号?(?:房|室|楼)",
  _MINUS: "[-\u2212][$€£¥]?$|^[-\u2212] [$€£¥]?$|(?<![a-z])(?:minus|negative) [$€£¥]?$|负 ?$",
};

const BEFORE_MOMENT = new RegExp(PATTERNS._BEFORE_MOMENT, "u");
const AFTER_MOMENT = new RegExp(PATTERNS._AFTER_MOMENT, "uy");
const NO_ID = [PATTERNS._LIKE_A_YEAR, PATTERNS._LIKE_A_DAY, PATTERNS._LIKE_A_MOBILE].map(
  (pattern) => new RegExp(`^(?:${pattern})$`, "u"),
);
const NO_ID_BEFORE = new RegExp(PATTERNS._NO_ID_BEFORE, "u");
const NO_ID_AFTER = new RegExp(`^(?:${PATTERNS._NO_ID_AFTER})`, "u");
const MINUS = new RegExp(PATTERNS._MINUS, "gu");

/** Whether a month or a day of the calendar is doubtful by what stands directly beside it. */
export function ofMoment(text: string, start: number, end: number): boolean {
  if (BEFORE_MOMENT.test(text.slice(back(text, start, NEAR), start))) return true;
  AFTER_MOMENT.lastIndex = end;
  return AFTER_MOMENT.test(text.slice(0, forth(text, end, NEAR)));
}

/** Whether digits may as well be a year, a day or a mobile number. */
export function looksLikeNoId(digits: string): boolean {
  return NO_ID.some((form) => form.test(digits));
}

/** Whether the text says itself that digits are those of a room, a phone, a password. */
export function isCalledNoId(text: string, start: number, end: number): boolean {
  const before = text.slice(back(text, start, NEAR), start);
  return NO_ID_BEFORE.test(before) || NO_ID_AFTER.test(text.slice(end, forth(text, end, NEAR)));
}

/** Whether a minus stands before a numeral; a dash between spaces is none. */
export function isNegative(text: string, start: number): boolean {
  MINUS.lastIndex = back(text, start, 12);
  return MINUS.test(text.slice(0, start));
}
