// One dependency on the page.

import { force } from "./actions.js";
import { Charts, drawStrip } from "./charts.js";
import { Track } from "./track.js";
import { bytes, clock, count, element, percent, rate, seconds, span, word } from "./words.js";

const template = document.getElementById("card");
const keptTransitions = 10;
const adviceEvery = 30; // seconds

const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);

export class Card {
	#parts = {};
	#charts;
	#transitions = []; // seen since the page was opened, newest first
	#advised = -Infinity; // when the advice was asked for; Infinity where there is none
	visible = false;

	constructor(name, id, complain) {
		this.name = name;
		this.track = new Track();
		this.element = template.content.firstElementChild.cloneNode(true);
		this.element.id = id;
		for (const part of this.element.querySelectorAll("[data-part]")) this.#parts[part.dataset.part] = part;
		this.#charts = new Charts(this.element);
		this.#set("name", name);
		this.#parts.actions.setAttribute("aria-label", `Circuit of ${name}`);
		for (const button of this.#parts.actions.children) {
			button.addEventListener("click", async () => {
				if (button.ariaPressed === "true") return;
				try {
					const status = await force(name, button.value);
					if (status) this.#order(status);
				} catch (e) {
					complain(`${name} was not forced: ${e.message}`);
				}
			});
		}
	}

	/** Shows text, and only where it differs, or hides the part without any. */
	#set(part, text) {
		const p = this.#parts[part];
		if (p.textContent === text) return;
		p.textContent = text;
		p.hidden = text === "";
	}

	/** Takes a new status. */
	update(status, at) {
		this.status = status;
		this.track.add(status, at);
		this.#order(status);
		this.#numbers(status, at);
		if (this.visible) {
			this.#pictures();
			this.#advice(at);
		}
	}

	/** Shows the state and who decides it. */
	#order(status) {
		this.status = status;
		const b = status.breaker, p = this.#parts;
		this.#set("state", word(b.state));
		p.state.className = this.element.dataset.state = word(b.state);
		p.state.classList.add("state");
		this.#set("note", b.forced ? "forced by an operator" : { observe: "observing: nothing is refused", off: "off" }[b.mode] ?? "");
		this.#set("why", b.reason);
		this.#set("since", `since ${clock(Date.parse(b.since))}`);
		const inForce = b.forced ? (b.state === "open" ? "open" : "closed") : "auto";
		for (const button of p.actions.children) button.ariaPressed = String(button.value === inForce);
	}

	/** Shows how much time is left, now being in ms since 1970; nothing where it is not known. */
	countDown(now) {
		const until = this.status.breaker.open_until;
		this.#set("left", until && now ? `${Math.max(0, Math.ceil((Date.parse(until) - now) / 1000))} s left` : "");
	}

	#numbers(status, at) {
		const r = this.track.now(), answered = r.ok + r.failed + r.fallback + r.rejected;
		const share = (n, what) => n > 0 ? [`${percent(n, answered)} ${what}`] : [];
		this.#set("users", answered === 0 ? "No calls now." : r.ok === answered ? "Callers get its own answers." : `Callers get ${[
			...share(r.ok, "own answers"), ...share(r.fallback, "fallbacks"),
			...share(r.rejected, "refusals"), ...share(r.failed, "failures")].join(", ")}.`);
		for (const outcome of Object.keys(r)) this.#set(outcome, rate(r[outcome]));
		this.#set("p50", seconds(status.latency.p50_seconds));
		this.#set("p99", seconds(status.latency.p99_seconds));
		const h = status.bulkhead;
		this.#set("in_use", `${h.in_use}`);
		this.#set("limit", `${h.limit}`);
		this.#set("waiting", `${h.waiting}`);

		const c = status.cache, n = status.requests, f = status.fallbacks;
		this.#set("copies", [
			...(f.stale ? [`${count(f.stale, "call was", "calls were")} answered by a copy, the last one ${span(f.last_stale_age_seconds)} old`] : []),
			...(f.static ? [`${count(f.static, "call was", "calls were")} answered by the static body`] : []),
			...(c.entries ? [`${count(c.entries, "copy is", "copies are")} kept (${bytes(c.bytes)}), the oldest ${span(c.oldest_seconds)} old`] : []),
		].join("; "));
		this.#set("drill", status.drill ? this.#drill(status.drill, at) : "");
		this.#set("shadow", status.shadow ? this.#shadow(status.shadow) : "");
		this.#set("addresses", `${status.listen} → ${status.upstream}`);
		const b = status.breaker, w = b.window;
		this.#set("window", `${count(w.calls, "call", "calls")}, ${w.failures} failed, ${w.slow} slow`);
		this.#set("opened", `${count(b.opened_total, "time", "times")}, ${span(b.open_seconds_total)} in all`);
		this.#set("permits", `${h.max_concurrent} and ${h.max_waiting} waiting; the oldest waits ${seconds(h.oldest_wait_seconds)}`);
		this.#set("totals", Object.entries(n).map(([k, v]) => `${k} ${v.toLocaleString("en")}`).join(", "));
	}

	#drill(d, at) {
		const left = Math.max(0, Math.ceil(Date.parse(d.until) / 1000 - at));
		return `Fire drill: ${d.fault} on ${percent(d.share, 1)} of attempts, ${d.injected} injected, ${left} s left.`;
	}

	#shadow(s) {
		return `Shadow: ${word(s.state)}; would reject ${sum(s.would_reject)}, would admit ${sum(s.would_admit)}, agrees on ${sum(s.agreed)}.`;
	}

	/** Takes a transition's event. */
	changed(transition) {
		this.#transitions.unshift({ ...transition, at: Date.parse(transition.at) });
		this.#transitions.length = Math.min(this.#transitions.length, keptTransitions);
	}

	/** Draws all that shows the last quarter of an hour. */
	#pictures() {
		drawStrip(this.#parts.strip, this.track);
		this.#charts.draw(this.track);
		const seen = this.#transitions.map((t) => `${clock(t.at)} ${word(t.from)} → ${word(t.to)}${t.reason && `: ${t.reason}`}`);
		const first = this.#transitions.at(-1)?.at ?? Infinity;
		const names = { c: "closed", h: "half-open", o: "open" };
		const runs = this.track.runs();
		const older = runs.flatMap((r, i) => i > 0 && names[r.state] && names[runs[i - 1].state] && (r.to * 1000) < first
			? [`about ${clock(r.from * 1000)} ${names[runs[i - 1].state]} → ${names[r.state]}`] : []);
		const lines = [...seen, ...older.reverse()].slice(0, keptTransitions);
		if (lines.length === 0) lines.push("none in the last 15 minutes");
		const list = this.#parts.transitions;
		if (lines.join("\n") !== [...list.children].map((e) => e.textContent).join("\n")) {
			list.replaceChildren(...lines.map((l) => element("li", l)));
		}
	}

	/** Asks for advice now and then, where the API gives any. */
	async #advice(at) {
		if (at - this.#advised < adviceEvery) return;
		this.#advised = at;
		const response = await fetch(`/api/dependencies/${encodeURIComponent(this.name)}/advice`).catch(() => null);
		if (response?.status === 404) this.#advised = Infinity;
		if (!response?.ok) return;
		const { findings } = await response.json();
		this.#parts.advice.hidden = findings.length === 0;
		this.#parts.findings.replaceChildren(...findings.map((f) => {
			const item = element("li", "");
			item.className = f.severity;
			item.append(element("strong", f.title), ` ${f.evidence}. `);
			if (f.suggested) item.append(element("code", `${f.key}: ${f.suggested}`), ` instead of ${f.current}. `);
			item.append(f.why);
			return item;
		}));
	}

	/** Begins or ends drawing. */
	show(visible) {
		this.visible = visible;
		this.#charts.show(visible, this.track);
		if (visible) this.#pictures();
	}
}
