// What an operator can do. Each order is asked for once, then sent; the API
// answers with what became of it and logs it.

const dialog = document.getElementById("confirm");
const part = (name) => dialog.querySelector(`[data-part=${name}]`);
let answer = () => {};

function settle(yes) {
	dialog.close();
	answer(yes);
}
part("yes").addEventListener("click", () => settle(true));
part("no").addEventListener("click", () => settle(false));
// Escape closes it, too. The event comes late: the next question may be open.
dialog.addEventListener("close", () => dialog.open || answer(false));

/** Asks once; the browser gives the focus back to where it was. */
function sure(title, text, verb) {
	part("title").textContent = title;
	part("text").textContent = text;
	part("yes").textContent = verb;
	dialog.showModal();
	part("no").focus();
	return new Promise((resolve) => answer = resolve);
}

/** Sends an order. It returns the answer's status and body; an error says why there is none. */
async function send(path, body) {
	const response = await fetch(path, {
		method: "POST",
		headers: body ? { "Content-Type": "application/json" } : {},
		body: body && JSON.stringify(body),
	});
	return { status: response.status, body: await response.json() };
}

const texts = {
	open: (n) => [`Force ${n} open?`, "Every call is refused, or answered by its fallback, until you set it back to automatic. Nothing reaches the dependency. A reload does not end it.", "Force open"],
	closed: (n) => [`Force ${n} closed?`, "Every call is let through, however many fail, until you set it back to automatic. A reload does not end it.", "Force closed"],
	auto: (n) => [`Set ${n} back to automatic?`, "From then on its rules decide again.", "Set to automatic"],
};

/** Asks, then forces a circuit. It returns the dependency as it stands then, or null. */
export async function force(name, order) {
	if (!await sure(...texts[order](name))) return null;
	const { status, body } = await send(`/api/dependencies/${encodeURIComponent(name)}/breaker`, { force: order });
	if (status !== 200) throw new Error(body.detail);
	return body;
}

/** Asks, then reloads. It returns whether the new configuration is in force, or null. */
export async function reload() {
	if (!await sure("Reload the configuration?", "The file is read and applied, all of it or, where it has a fault, nothing.", "Reload")) return null;
	const { status, body } = await send("/api/reload");
	if (status !== 200 && status !== 422) throw new Error(body.detail);
	return status === 200;
}
