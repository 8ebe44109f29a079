// Days as numbers: those since 1970-01-01, in the calendar that Python's `date` knows (years 1 to 9999).

const DAY_MS = 86_400_000;
export const [FIRST_DAY, LAST_DAY] = [dayNumber(1, 1, 1), dayNumber(9999, 12, 31)];

/** The day, null where there is none. `month` is 1 to 12. */
export function dayOf(year: number, month: number, day: number): number | null {
  const number = year >= 1 && year <= 9999 ? dayNumber(year, month, day) : null;
  if (number === null) return null;
  const [y, m, d] = partsOf(number);
  return y === year && m === month && d === day ? number : null;
}

/** The day of YYYY-MM-DD, null where there is none. */
export function dayOfIso(text: string): number | null {
  const [, year, month, day] = /^([0-9]{4})-([0-9]{2})-([0-9]{2})$/.exec(text) ?? [];
  return day === undefined ? null : dayOf(Number(year), Number(month), Number(day));
}

/** YYYY-MM-DD. */
export function isoOf(day: number): string {
  const [year, ...rest] = partsOf(day);
  return [String(year).padStart(4, "0"), ...rest.map((part) => String(part).padStart(2, "0"))].join("-");
}

/** Year, month (1 to 12) and day. */
export function partsOf(day: number): [number, number, number] {
  const date = new Date(day * DAY_MS);
  return [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate()];
}

/** 0 is Monday. */
export function weekdayOf(day: number): number {
  return (((day + 3) % 7) + 7) % 7;
}

/** The first day of the month that many months from a day's. */
export function firstOfMonth(day: number, months = 0): number {
  const [year, month] = partsOf(day);
  const count = year * 12 + month - 1 + months;
  const found = dayOf(Math.floor(count / 12), (((count % 12) + 12) % 12) + 1, 1);
  if (found === null) throw new RangeError("there is no such year");
  return found;
}

/** The day that many days on. */
export function daysOn(day: number, days: number): number {
  const found = day + days;
  if (found < FIRST_DAY || found > LAST_DAY) throw new RangeError("there is no such year");
  return found;
}

function dayNumber(year: number, month: number, day: number): number {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return Math.floor(date.getTime() / DAY_MS);
}
