// SPDX-License-Identifier: Apache-2.0

// How long calls took, by function.

const latency = { chosen: "", stale: true, by: new Map(), sort: "total", plots: [] };

// latenciesOf collects the durations of calls, of sessions and of the calls in them, by function.
function latenciesOf(events) {
	const by = new Map();
	const put = (fn, start, length, self, bad) => {
		let f = by.get(fn);
		if (!f) by.set(fn, (f = { fn, calls: 0, bad: 0, total: 0, self: 0, starts: [], lengths: [] }));
		f.calls++;
		if (bad) f.bad++;
		if (!(length >= 0)) return;
		f.total += length;
		f.self += self;
		f.starts.push(start);
		f.lengths.push(length);
	};
	for (const e of events) {
		if (e.kind === "loss" || e.kind === "warning" || e.open) continue;
		if (!e.nodes) put(e.full, e.start, e.length, e.length, e.bad);
		else for (const n of e.nodes) put(n.fn, n.entry, n.length, n.length - Math.min(n.inside, n.length), n.failed);
	}
	for (const f of by.values()) {
		const sorted = (f.sorted = Float64Array.from(f.lengths).sort());
		for (const [name, q] of [["p50", 0.5], ["p90", 0.9], ["p99", 0.99]]) f[name] = quantile(sorted, q);
		f.max = sorted.length ? sorted[sorted.length - 1] : -1;
		f.avg = sorted.length ? f.total / sorted.length : -1;
	}
	return by;
}

// quantile returns the least duration that a share of all do not exceed.
function quantile(sorted, q) {
	return sorted.length ? sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] : -1;
}

const latencyColumns = [["fn", "function"], ["calls", "calls"], ["bad", "failed"], ["total", "total"], ["self", "self"], ["avg", "average"], ["p50", "p50"], ["p90", "p90"], ["p99", "p99"], ["max", "max"]];

// functionRows is how many functions the table has at most.
const functionRows = 1000;

function drawLatency() {
	if (!latency.stale) return;
	latency.stale = false;
	latency.by = latenciesOf(shown);
	const table = element("table"), head = element("tr");
	for (const [key, title] of latencyColumns) {
		const b = element("button", "", title), th = element("th", key === "fn" ? "" : "right");
		b.addEventListener("click", () => {
			latency.sort = key;
			latency.stale = true;
			drawLatency();
		});
		th.setAttribute("aria-sort", latency.sort === key ? (key === "fn" ? "ascending" : "descending") : "none");
		th.append(b);
		head.append(th);
	}
	table.append(head);
	const key = latency.sort, all = [...latency.by.values()].sort((a, b) => (key === "fn" ? (a.fn < b.fn ? -1 : 1) : b[key] - a[key]) || b.calls - a.calls);
	const most = Math.max(1, ...all.map((f) => f.total));
	for (const f of all.slice(0, functionRows)) table.append(latencyRow(f, most));
	const box = document.getElementById("latencies");
	box.replaceChildren(table);
	if (all.length > functionRows) box.append(element("p", "note", counted(all.length - functionRows, "more function") + ": filter for them"));
	document.getElementById("lengths").textContent = unmeasured(all);
	if (!latency.by.has(latency.chosen)) latency.chosen = all.length ? all[0].fn : "";
	drawPlots();
}

// unmeasured says of which calls there are no durations, and why.
function unmeasured(all) {
	const calls = all.reduce((n, f) => n + f.calls, 0), missing = calls - all.reduce((n, f) => n + f.lengths.length, 0);
	if (!calls) return "There are no calls to measure" + (shown.length < model.events.length ? " among the events that pass the filter." : ".");
	if (!missing) return "";
	const ends = "A call has a duration if records of both its ends were sent, or if the SPEC that was recorded has $duration.";
	return (missing === calls ? "No durations are known. " : counted(missing, "call") + " of " + count(calls) + " without a duration. ") + ends;
}

function latencyRow(f, most) {
	const tr = element("tr", f.fn === latency.chosen ? "chosen" : "");
	tr.tabIndex = 0;
	for (const [key] of latencyColumns) {
		const td = element("td", key === "fn" ? "fn" : "right" + (key === "bad" && f.bad ? " badtext" : ""), key === "fn" ? f.fn : key === "calls" || key === "bad" ? count(f[key]) : f.sorted.length ? duration(Math.round(f[key])) : "");
		if (key === "total") {
			const bar = element("span", "under");
			bar.style.width = (100 * f.total) / most + "%";
			td.append(bar);
		}
		tr.append(td);
	}
	const pick = () => {
		latency.chosen = f.fn;
		latency.stale = true;
		drawLatency();
	};
	tr.addEventListener("click", pick);
	tr.addEventListener("keydown", (ev) => {
		if (ev.key === "Enter") pick();
	});
	return tr;
}

// bucketsOf counts durations by half powers of two, without gaps.
function bucketsOf(sorted) {
	const index = (n) => Math.floor(2 * Math.log2(Math.max(1, n))), x = [], y = [];
	const first = index(sorted[0]), last = index(sorted[sorted.length - 1]);
	for (let i = first; i <= last; i++) x.push(i), y.push(0);
	for (const n of sorted) y[index(n) - first]++;
	return [x, y];
}

function drawPlots() {
	for (const p of latency.plots) p.destroy();
	latency.plots = [];
	const f = latency.by.get(latency.chosen), histogram = document.getElementById("histogram"), scatter = document.getElementById("scatter");
	document.querySelector(".plots").hidden = !f || !f.sorted.length;
	if (!f || !f.sorted.length) return;
	document.getElementById("plotted").textContent = f.fn + ": " + counted(f.sorted.length, "duration");
	const axisOf = (more) => ({ stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") }, ...more });
	const whole = (u, splits) => splits.map((v) => (Number.isInteger(v) ? duration(Math.round(2 ** (v / 2))) : ""));
	const width = Math.max(260, histogram.clientWidth), common = { width, height: 230, legend: { show: false }, cursor: { drag: { x: false, y: false } } };
	const [x, y] = bucketsOf(f.sorted);
	latency.plots.push(new uPlot({ ...common, scales: { x: { time: false, range: [x[0] - 1, x[x.length - 1] + 1] }, y: { range: (u, low, high) => [0, Math.max(1, high * 1.05)] } },
		axes: [axisOf({ values: whole, space: 70 }), axisOf({ size: 60 })],
		series: [{}, { stroke: colour("bar"), fill: colour("bar"), paths: uPlot.paths.bars({ size: [0.9, 60], align: 1 }), points: { show: false } }] }, [x, y], histogram));
	const order = f.starts.map((_, i) => i).sort((a, b) => f.starts[a] - f.starts[b]);
	latency.plots.push(new uPlot({ ...common, scales: { x: { time: false }, y: { distr: 3 } },
		axes: [axisOf({ values: (u, splits) => splits.map((v) => "+" + v + " s"), space: 90 }), axisOf({ size: 70, values: (u, splits) => splits.map((v) => (v ? duration(v) : "")) })],
		series: [{}, { stroke: colour("bar"), paths: () => null, points: { show: true, size: 4, fill: colour("bar"), width: 0 } }] },
		[order.map((i) => (f.starts[i] - model.first) / second), order.map((i) => Math.max(1, f.lengths[i]))], scatter));
}
