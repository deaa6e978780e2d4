// The order of the cards: the sickest first, else as configured. It stays as it
// is while a pointer or the focus is among them.

const gravity = { open: 4, half_open: 3 };

/** How sick a dependency is; higher is worse. */
export function sickness(card) {
	const b = card.status.breaker;
	return gravity[b.state] ?? (b.forced ? 2 : card.track.suffered ? 1 : 0);
}

/** Makes the function that puts the cards into order when nobody is among them. */
export function keepOrder(list, note) {
	let pointer = null; // where it is, unless it has left the page
	const here = (e) => pointer = { x: e.clientX, y: e.clientY };
	const gone = () => pointer = null;
	addEventListener("pointermove", here);
	addEventListener("pointerdown", here);
	addEventListener("pointercancel", gone);
	addEventListener("pointerup", (e) => e.pointerType === "touch" && gone());
	document.documentElement.addEventListener("pointerleave", gone);

	const occupied = () => list.contains(document.activeElement)
		|| document.querySelector("dialog[open]") // which was opened from a card, and leads back to it
		|| pointer && list.contains(document.elementFromPoint(pointer.x, pointer.y));

	return (cards) => {
		const sorted = cards.map((card) => ({ card, sickness: sickness(card) }))
			.sort((a, b) => b.sickness - a.sickness) // which is stable
			.map(({ card }) => card.element);
		const wrong = sorted.some((element, i) => list.children[i] !== element);
		const held = wrong && list.childElementCount === sorted.length && Boolean(occupied());
		note.hidden = !held;
		if (wrong && !held) list.replaceChildren(...sorted);
	};
}
