// The event stream, and whether it can be believed.

const patience = 3000; // ms without a status after which what is shown is old
const retryEvery = 3000; // ms between attempts where the browser makes none

/**
 * Follows the events for as long as the page is looked at; a hidden page gives
 * its connection back. on.status, on.transition and on.reload get what the
 * events say; on.lost is called when what is shown stops being current.
 */
export function follow(on) {
	let source = null;
	let opened = 0, heard = 0; // performance.now() of the last attempt and the last status

	const listen = (name) => source.addEventListener(name, (e) => {
		if (name === "status") heard = performance.now();
		on[name](JSON.parse(e.data));
	});
	const close = () => {
		source?.close();
		source = null;
		on.lost();
	};
	const open = () => {
		source?.close();
		opened = performance.now();
		source = new EventSource("/api/events");
		source.onerror = on.lost;
		["status", "transition", "reload"].forEach(listen);
	};

	document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
	// A connection can die without a word, and a refusal ends a source for good.
	setInterval(() => {
		if (!source) return;
		const now = performance.now();
		if (now - heard < patience) return;
		on.lost();
		if (now - opened > retryEvery && (source.readyState === EventSource.CLOSED || now - opened > 3 * retryEvery)) open();
	}, 500);
	if (!document.hidden) open();
}
