// Numbers, times and devices as text. Pure.

export const NONE = "\u2013";

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

export function number(value) {
  return value.toLocaleString("en-US");
}

/** MiB in the unit of most requests: 79.6Gi. */
export function memory(mib) {
  return `${Number((mib / 1024).toFixed(1))}Gi`;
}

export function money(value, currency) {
  return `${value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })} ${currency}`;
}

export function percent(part, whole) {
  return whole ? `${Math.round((100 * part) / whole)}%` : NONE;
}

/** 45 s, 5 min, 1 h 48 min, 6 d 3 h. */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** The time from an RFC 3339 text until now. */
export function age(since, nowMs) {
  return since ? duration((nowMs - Date.parse(since)) / 1000) : NONE;
}

/** 12:04:11, with the date where it is not today's. */
export function clock(text, nowMs) {
  if (!text) return NONE;
  const time = new Date(text);
  const hours = time.toLocaleTimeString("en-GB");
  return time.toDateString() === new Date(nowMs).toDateString()
    ? hours
    : `${day(text)} ${hours.slice(0, 5)}`;
}

export function day(text) {
  return new Date(text).toLocaleDateString("en-CA");
}

/** {gpu: 8, "1g.10gb": 2} as "8 GPUs, 2 x 1g.10gb". */
export function devices(counts) {
  return units(counts).map(([unit, count]) => amount(unit, count)).join(", ");
}

export function amount(unit, count) {
  if (unit === "gpu") return plural(count, "GPU");
  if (unit === "gpu.shared") return plural(count, "shared GPU");
  if (unit === "claim") return plural(count, "ResourceClaim");
  return `${number(count)} \u00d7 ${unit}`;
}

export function unitName(unit) {
  return { gpu: "GPUs", "gpu.shared": "shared GPUs" }[unit] ?? unit;
}

/** Whole GPUs first, then by name; what is zero is left out. */
export function units(counts) {
  return Object.entries(counts)
    .filter(([, count]) => count)
    .sort(([one], [other]) => rank(one) - rank(other) || one.localeCompare(other));
}

function rank(unit) {
  return unit === "gpu" ? 0 : 1;
}

/** Amounts of a device that are neither held, free nor failed. */
export function unavailable({ total, held, free, failed }) {
  return Math.max(0, total - held - free - failed);
}

/** "4 held, 3 free, 1 failed". */
export function states(amounts) {
  const parts = [["held", amounts.held], ["free", amounts.free], ["failed", amounts.failed]];
  parts.push(["unavailable", unavailable(amounts)]);
  return parts.filter(([, count]) => count).map(([state, count]) => `${number(count)} ${state}`).join(", ");
}

/** INSUFFICIENT of a queue's code as words for a table. */
export function codeName(code) {
  return code === "NEW" ? "not decided yet" : code;
}

/** Rows as comma-separated values (RFC 4180); a text that a spreadsheet would run is quoted. */
export function csv(rows) {
  const field = (value) => {
    const text = String(value ?? "");
    const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}
