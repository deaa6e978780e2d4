// Values as people read them, and how they get into the page.

/** A duration in seconds: ms below a second, three digits; "–" for none. */
export function seconds(s) {
	if (s === null || s === undefined) return "–";
	if (s < 1) return `${Number((s * 1000).toPrecision(3))} ms`;
	return s < 1000 ? `${Number(s.toPrecision(3))} s` : `${s.toFixed(0)} s`;
}

/** A length of time in whole seconds: "37 s", "12 min", "3 h 5 min". */
export function span(s) {
	const minutes = Math.floor(s / 60);
	if (minutes < 2) return `${Math.floor(s)} s`;
	return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Calls a second: one decimal below ten, none above. */
export function rate(r) {
	return r >= 10 || r === 0 ? r.toFixed(0) : r.toFixed(1);
}

/** A share, never rounded to none or to all when it is not. */
export function percent(part, whole) {
	const p = 100 * part / whole;
	if (p > 0 && p < 1) return "<1 %";
	return p < 100 && p > 99 ? ">99 %" : `${p.toFixed(0)} %`;
}

/** A size in bytes. */
export function bytes(n) {
	if (n < 1024) return `${n} B`;
	return n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}

/** The time of day of a moment in ms since 1970, in UTC. */
export const clock = (ms) => new Date(ms).toISOString().slice(11, 19);

/** "1 copy", "3 copies". */
export const count = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** A circuit's state as people write it. */
export const word = (state) => state === "half_open" ? "half-open" : state;

/** An element with text, which is never read as markup. */
export function element(tag, text) {
	const e = document.createElement(tag);
	e.textContent = text;
	return e;
}
