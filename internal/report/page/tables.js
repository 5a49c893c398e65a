// SPDX-License-Identifier: Apache-2.0

// The tables of what aggregations have added up.

// tableRows is how many rows are shown of a table before somebody asks for more.
const tableRows = 500;

function drawTables() {
	const box = document.getElementById("view-tables");
	box.replaceChildren();
	for (const s of model.summaries) {
		const figure = element("figure", "summary"), caption = element("figcaption");
		caption.append(element("b", "", clean(s.item)), element("span", "faint", s.keys.length ? " by " + s.keys.map(clean).join(", ") : ""), element("code", "", clean(s.spec)));
		figure.append(caption, summaryTable(s));
		box.append(figure);
	}
}

const measures = ["calls", "sum", "avg", "min", "max", "p50", "p90", "p99", "p99.9"];

function summaryTable(s) {
	const table = element("table"), have = measures.filter((m) => s.rows.some((r) => m in r)), head = element("tr");
	for (const k of s.keys) head.append(element("th", "", clean(k)));
	for (const m of have) head.append(element("th", "right", m));
	const lists = s.rows.some((r) => r.buckets || r.values);
	if (lists) head.append(element("th", "wide", s.of ? clean(s.of) : ""));
	table.append(head);
	const put = (from) => {
		for (const r of s.rows.slice(from, from + tableRows)) {
			const tr = element("tr");
			for (const k of s.keys) tr.append(element("td", "fn", key(k, r.keys[k])));
			for (const m of have) tr.append(element("td", "right", m in r ? measure(m, r[m], s.unit) : ""));
			if (lists) tr.append(distribution(r, s.unit));
			table.append(tr);
		}
		if (from + tableRows >= s.rows.length) return;
		const tr = element("tr"), td = element("td"), more = element("button", "more", counted(s.rows.length - from - tableRows, "more row"));
		td.colSpan = 20;
		more.addEventListener("click", () => {
			tr.remove();
			put(from + tableRows);
		});
		td.append(more);
		tr.append(td);
		table.append(tr);
	};
	put(0);
	return table;
}

function key(name, v) {
	if (name === "$stack" && typeof v === "number") return (model.stacks.get(v) || []).map(frameName).join(" ‹ ");
	return typeof v === "string" ? clean(v) : flat(v, 400);
}

function measure(name, v, unit) {
	if (v === null) return "negative";
	const n = number(v);
	if (name !== "calls" && unit === "ns") return duration(Math.round(n));
	return isBig(v) ? v[big] : typeof n === "number" ? count(n) : flat(v, 80);
}

// distribution shows buckets, or the most frequent values, with bars.
function distribution(r, unit) {
	const td = element("td", "wide"), most = Math.max(1, ...(r.buckets || r.values || []).map((b) => number(b.calls)));
	for (const b of r.buckets || r.values || []) {
		const line = element("div", "bucket"), bar = element("span", "share"), inner = element("span");
		inner.style.width = (100 * number(b.calls)) / most + "%";
		bar.append(inner);
		const bound = (v) => (v === undefined ? "" : measure("", v, unit));
		line.append(element("span", "low", r.values ? flat(b.value, 80) : bound(b.low) + " … " + bound(b.high)), bar, element("span", "", count(number(b.calls))));
		td.append(line);
	}
	return td;
}
