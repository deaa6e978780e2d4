// The small pictures of the last quarter of an hour. Only those on the screen
// are drawn, so that a hundred dependencies cost no more than what is seen.

import { outcomes, stepSeconds, steps } from "./track.js";
import { clock, seconds, span, word } from "./words.js";

const { uPlot } = globalThis; // vendor/uPlot.iife.min.js

const quarter = steps * stepSeconds;
const height = 64;

/** What each kind of chart shows: its columns, how they are drawn, and how values read. */
const kinds = {
	calls: { columns: outcomes, stacked: true, value: (v) => `${Number(v.toPrecision(3))}` },
	latency: { columns: ["p50_seconds", "p99_seconds"], value: seconds },
	permits: { columns: ["in_use", "limit", "waiting"], value: (v) => `${v}` },
};

/** Adds each column to the ones before it, and draws the highest first. */
function stack(columns) {
	const sum = columns[0].map(() => 0);
	return columns.map((c) => c.map((v, i) => v === null ? null : sum[i] += v)).reverse();
}

/** Chart draws one kind of chart into a figure, in the colours of its legend. */
class Chart {
	end = 0; // the right edge, in seconds since 1970
	top = 0; // the highest value

	constructor(figure) {
		this.kind = kinds[figure.dataset.chart];
		this.host = figure.querySelector(".plot");
		const swatches = this.kind.columns.map((c) => figure.querySelector(`.swatch.${c}`));
		if (this.kind.stacked) swatches.reverse();
		const grey = () => getComputedStyle(this.host).color;
		this.plot = new uPlot({
			width: this.host.clientWidth, height,
			legend: { show: false }, cursor: { show: false }, padding: [4, 0, 4, 0],
			scales: {
				x: { time: false, range: () => [this.end - quarter, this.end] },
				y: { range: (_, __, max) => [0, (this.top = max) > 0 ? max * 1.05 : 1] },
			},
			axes: [
				{ show: false },
				{
					stroke: grey, size: 46, gap: 3, font: "10px system-ui, sans-serif", ticks: { show: false },
					grid: { stroke: grey, width: 0.25 }, splits: () => this.top > 0 ? [0, this.top] : [0],
					values: (_, ticks) => ticks.map((v) => v === 0 ? "0" : this.kind.value(v)),
				},
			],
			series: [{}, ...swatches.map((s) => {
				const colour = () => getComputedStyle(s).backgroundColor;
				return {
					stroke: colour, width: this.kind.stacked ? 0 : 1.5, fill: this.kind.stacked ? colour : undefined,
					paths: uPlot.paths.stepped({ align: -1 }), points: { show: false },
				};
			})],
		}, [[], ...swatches.map(() => [])], this.host);
	}

	draw(track) {
		const [times, ...columns] = track.series(this.kind.columns);
		this.end = times.at(-1);
		if (this.plot.width !== this.host.clientWidth) this.plot.setSize({ width: this.host.clientWidth, height });
		this.plot.setData([times, ...(this.kind.stacked ? stack(columns) : columns)]);
	}

	destroy() { this.plot.destroy(); }
}

/** Charts are those of one card. */
export class Charts {
	#figures;
	#charts = null;

	constructor(card) {
		this.#figures = [...card.querySelectorAll("[data-chart]")];
	}

	/** Draws them, where they are on the screen. */
	draw(track) {
		this.#charts?.forEach((c) => c.draw(track));
	}

	/** Makes room when a card has left the screen, and draws when it comes. */
	show(visible, track) {
		this.#charts?.forEach((c) => c.destroy());
		this.#charts = visible ? this.#figures.map((f) => new Chart(f)) : null;
		this.draw(track);
	}
}

const states = { c: "closed", h: "half_open", o: "open" };
const heights = { c: 4, h: 10, o: 16 };

/** Draws the strip of states: higher is worse, so that it can be read without colour. */
export function drawStrip(svg, track) {
	const runs = track.runs();
	const end = runs.at(-1)?.to ?? 0;
	svg.replaceChildren(...runs.filter((r) => r.state !== ".").map((r) => {
		const bar = document.createElementNS(svg.namespaceURI, "rect");
		const box = { x: quarter - (end - r.from), y: 16 - heights[r.state], width: r.to - r.from, height: heights[r.state] };
		for (const [name, value] of Object.entries(box)) bar.setAttribute(name, value);
		bar.setAttribute("class", word(states[r.state]));
		return bar;
	}));
	svg.setAttribute("aria-label", stripInWords(runs));
}

function stripInWords(runs) {
	const said = runs.filter((r) => r.state === "h" || r.state === "o")
		.map((r) => `${word(states[r.state])} for ${span(r.to - r.from)} from ${clock(r.from * 1000)}`);
	return `The last 15 minutes: ${said.slice(-5).join("; ") || "closed"}`;
}
