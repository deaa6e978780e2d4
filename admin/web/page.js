// The live page: it takes what the event stream says and shows it. What the API
// says goes into the page as text, never as markup.

import { reload } from "./actions.js";
import { Card } from "./card.js";
import { keepOrder, sickness } from "./order.js";
import { follow } from "./stream.js";
import { clock, count, element, span, word } from "./words.js";

const part = (id) => document.getElementById(id);
const cards = new Map(); // by name, in the order of the configuration
const arrange = keepOrder(part("cards"), part("held"));
const state = {
	last: null, // the last status
	ahead: 0, // ms by which the sidecar's clock is ahead of performance.now()
	current: false, // whether what is shown is true now
	made: 0, // cards made so far
};

const watcher = new IntersectionObserver((entries) => {
	for (const e of entries) [...cards.values()].find((c) => c.element === e.target)?.show(e.isIntersecting);
}, { rootMargin: "200px" });

/** The sidecar's time in ms since 1970. */
const now = () => performance.now() + state.ahead;

/** Tells of what went wrong, until the next order. */
function complain(text) {
	part("trouble").textContent = text;
	part("trouble").hidden = text === "";
}

/** A list item with a link to a card. */
function linkTo(card, text) {
	const item = element("li", ""), link = element("a", text);
	link.href = `#${card.element.id}`;
	item.append(link);
	return item;
}

/** Replaces a list where its texts have changed, so that a focused link stays. */
function setList(list, cards, text) {
	const texts = cards.map(text);
	if (texts.join("\n") === [...list.children].map((e) => e.textContent).join("\n")) return;
	list.replaceChildren(...cards.map((c, i) => linkTo(c, texts[i])));
}

/** Makes and drops cards, so that there is one for each dependency. */
function deal(dependencies) {
	const names = dependencies.map((d) => d.name);
	const known = [...cards.keys()];
	if (names.length === known.length && names.every((n, i) => n === known[i])) return;
	const before = new Map(cards);
	cards.clear();
	for (const name of names) {
		const card = before.get(name) ?? new Card(name, `dependency-${++state.made}`, complain);
		if (!before.delete(name)) watcher.observe(card.element);
		cards.set(name, card);
	}
	for (const gone of before.values()) {
		watcher.unobserve(gone.element);
		gone.show(false);
		gone.element.remove();
	}
}

function showSummary() {
	const all = [...cards.values()];
	const sick = all.filter((c) => sickness(c) > 2);
	const text = sick.length === 0
		? `All closed: ${count(all.length, "dependency", "dependencies")}`
		: `${sick.length} of ${count(all.length, "circuit", "circuits")} ${sick.length === 1 ? "is" : "are"} not closed`;
	part("summary").textContent = text;
	document.title = sick.length === 0 ? "sidecar" : `(${sick.length}) sidecar`;
	setList(part("sick"), sick, (c) => `${c.name}: ${word(c.status.breaker.state)}`);
	const forced = all.filter((c) => c.status.breaker.forced);
	part("forced").hidden = forced.length === 0;
	setList(part("orders"), forced, (c) => `${c.name}: ${word(c.status.breaker.state)} since ${clock(Date.parse(c.status.breaker.since))}`);
}

/** Shows how the last reload went, with each fault at its line. */
function showReload({ at, error, faults }) {
	if (part("loaded").dataset.at === at) return;
	part("loaded").dataset.at = at;
	part("loaded").hidden = error !== "";
	part("loaded").textContent = `Configuration loaded at ${clock(Date.parse(at))} UTC.`;
	part("refused").hidden = error === "";
	const lines = faults.length > 0 ? faults.map((f) => `${f.file}:${f.line}: ${f.key}: ${f.message}`) : [error];
	part("refused").replaceChildren(
		element("h2", `The last reload, at ${clock(Date.parse(at))} UTC, failed. The configuration from before stays.`),
		element("pre", lines.join("\n")));
	showConfig();
}

/** Shows the configuration in force, once somebody wants to see it. */
async function showConfig() {
	if (!part("config").open) return;
	const response = await fetch("/api/config").catch(() => null);
	if (response?.ok) part("config-text").textContent = await response.text();
}

/** Fills the tracks from the API's history, where there is one. */
async function recall() {
	const response = await fetch("/api/history").catch(() => null);
	if (response?.status === 404) recall.every = clearInterval(recall.every);
	if (!response?.ok) return;
	const { until, dependencies } = await response.json();
	for (const d of dependencies) cards.get(d.name)?.track.fill(d, Date.parse(until) / 1000);
}

follow({
	status(status) {
		const at = Date.parse(status.at), first = !state.last;
		state.ahead = at - performance.now();
		state.last = status;
		deal(status.dependencies);
		for (const d of status.dependencies) cards.get(d.name).update(d, at / 1000);
		if (!state.current) recall();
		state.current = true;
		showReload(status.reload);
		showSummary();
		arrange([...cards.values()]);
		tick();
		if (first) {
			part("live").hidden = part("tools").hidden = false;
			part("table").hidden = true;
		}
		part("lost").hidden = true;
		document.body.classList.remove("old");
	},
	transition(t) {
		cards.get(t.dependency)?.changed(t);
		part("said").textContent = `${t.dependency} is ${word(t.to)}${t.reason && `: ${t.reason}`}`;
	},
	reload(r) {
		part("said").textContent = r.result === "success" ? "The configuration was reloaded" : "The configuration was refused";
	},
	lost() {
		state.current = false;
		tick();
		part("lost").hidden = false;
		document.body.classList.add("old");
	},
});

/** Shows what changes with time alone. */
function tick() {
	for (const card of cards.values()) card.countDown(state.current ? now() : null);
	if (state.current) part("time").textContent = clock(now());
	if (!state.current && state.last) {
		const since = Date.parse(state.last.at);
		part("lost-since").textContent = clock(since);
		part("lost-for").textContent = span((now() - since) / 1000);
	}
}
setInterval(tick, 250);
recall.every = setInterval(() => state.current && recall(), 60_000);

part("reload").addEventListener("click", async () => {
	complain("");
	try {
		await reload();
	} catch (e) {
		complain(`The configuration was not reloaded: ${e.message}`);
	}
});
part("config").addEventListener("toggle", showConfig);
