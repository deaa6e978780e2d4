// The last quarter of an hour of one dependency, in steps of five seconds.

export const stepSeconds = 5;
export const steps = 180;

export const outcomes = ["ok", "fallback", "rejected", "failed", "canceled"];
const columns = [...outcomes, "p50_seconds", "p99_seconds", "in_use", "limit", "waiting"];
const letters = { closed: "c", half_open: "h", open: "o" };
const worse = (a, b) => "cho".indexOf(a) > "cho".indexOf(b) ? a : b;

/** Calls a second by outcome, between two statuses; a counter that fell began anew. */
function rates(from, to) {
	const length = to.at - from.at;
	return outcomes.map((o) => {
		const n = to.requests[o] - from.requests[o];
		return length > 0 ? (n < 0 ? to.requests[o] : n) / length : 0;
	});
}

/**
 * Track holds a column for each value, oldest step first. It is filled from the
 * API's history where there is one, and grows by itself from then on.
 */
export class Track {
	constructor() {
		this.state = ""; // a letter a step, "." where nothing is known
		this.column = Object.fromEntries(columns.map((c) => [c, []]));
		this.until = 0; // the end of the last step, in seconds since 1970
		this.step = null; // the one that grows
		this.recent = []; // the statuses of the last seconds
	}

	/** Takes one dependency of GET /api/history. */
	fill(past, until) {
		this.state = past.state;
		for (const c of columns) this.column[c] = past[c].map((v, i) => past.state[i] === "." ? null : v);
		this.until = until;
		this.step = null;
	}

	/** Takes a dependency's status, which was true at a time in seconds since 1970. */
	add(status, at) {
		const sample = { at, requests: status.requests };
		if (!this.until) this.until = Math.floor(at / stepSeconds) * stepSeconds;
		while (at >= this.until + stepSeconds) this.#close();
		const step = this.step ??= { from: this.recent.at(-1) ?? sample, state: "c", in_use: 0, waiting: 0 };
		step.to = sample;
		step.state = worse(letters[status.breaker.state], step.state);
		step.in_use = Math.max(step.in_use, status.bulkhead.in_use);
		step.waiting = Math.max(step.waiting, status.bulkhead.waiting);
		step.limit = status.bulkhead.limit;
		step.p50_seconds = status.latency.p50_seconds;
		step.p99_seconds = status.latency.p99_seconds;
		this.recent = [...this.recent.filter((s) => at - s.at < stepSeconds + 0.5), sample];
	}

	/** Ends the growing step and begins the next. */
	#close() {
		const values = this.#values();
		this.state = (this.state + (this.step?.state ?? ".")).slice(-steps);
		columns.forEach((c, i) => this.column[c] = [...this.column[c], values[i]].slice(-steps));
		this.until += stepSeconds;
		this.step = null;
	}

	/** The growing step's values, in the order of the columns. */
	#values() {
		if (!this.step) return columns.map(() => null);
		return [...rates(this.step.from, this.step.to), ...columns.slice(outcomes.length).map((c) => this.step[c])];
	}

	/** Calls a second by outcome over the last seconds. */
	now() {
		const r = this.recent.length > 1 ? rates(this.recent[0], this.recent.at(-1)) : outcomes.map(() => 0);
		return Object.fromEntries(outcomes.map((o, i) => [o, r[i]]));
	}

	/** Whether callers did not get the dependency's own answers in the last minute. */
	get suffered() {
		const last = 60 / stepSeconds;
		return ["failed", "fallback", "rejected"].some((o) =>
			this.column[o].slice(-last).some((v) => v > 0) || this.now()[o] > 0);
	}

	/** Times and the asked columns, the growing step included. */
	series(names) {
		const end = this.until + stepSeconds, all = this.#values();
		const values = names.map((n) => [...this.column[n], all[columns.indexOf(n)]]);
		return [values[0].map((_, i) => end - (values[0].length - 1 - i) * stepSeconds), ...values];
	}

	/** Uninterrupted runs of one state: {state, from, to}, in seconds since 1970. */
	runs() {
		const all = this.state + (this.step?.state ?? "");
		const end = this.until + (this.step ? stepSeconds : 0);
		const found = [];
		for (let i = 0; i < all.length; i++) {
			const to = end - (all.length - 1 - i) * stepSeconds;
			if (found.at(-1)?.state === all[i]) found.at(-1).to = to;
			else found.push({ state: all[i], from: to - stepSeconds, to });
		}
		return found;
	}
}
