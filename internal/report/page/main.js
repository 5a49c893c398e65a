// SPDX-License-Identifier: Apache-2.0

// The page as a whole.

const by = (id) => document.getElementById(id);
let view = "events";

// refresh shows what passes the filter. How long that takes is left in the page, for its tests.
function refresh() {
	const begun = performance.now();
	shown = model.events.filter(passes());
	flame.stale = latency.stale = true;
	sortList();
	showChosen();
	rows.scrollTop = 0;
	const some = shown.length !== model.events.length;
	by("shown").textContent = (some ? count(shown.length) + " of " : "") + counted(model.events.length, model.sessions ? "session" : "event");
	by("range").hidden = !Number.isFinite(filter.from);
	if (!by("range").hidden) by("range").textContent = seconds(filter.from) + " to " + seconds(filter.to) + " ✕";
	draw();
	document.documentElement.dataset.filter = (performance.now() - begun).toFixed(1);
}

// draw draws the view that is chosen.
function draw() {
	if (view === "events") {
		drawList();
		drawTimeline();
	} else if (view === "flame") {
		drawFlame();
	} else if (view === "latency") {
		drawLatency();
	}
}

function chooseView(name) {
	view = name;
	for (const tab of document.querySelectorAll("[role=tab]")) {
		const on = tab.dataset.view === name;
		tab.setAttribute("aria-selected", on);
		by("view-" + tab.dataset.view).hidden = !on;
	}
	by("toolbar").hidden = name === "tables";
	draw();
}

function notice(text, bad) {
	by("notices").append(element("p", bad ? "notice bad" : "notice", text));
}

// about says what the page is of.
function about() {
	const h = model.header, put = (text, className) => by("about").append(element("span", className, text));
	by("about").replaceChildren();
	if (!h) return;
	document.title = "ksnoop report" + (h.host ? " of " + clean(h.host) : "");
	put([h.host, h.kernel, h.arch].filter(Boolean).map(clean).join(" · "));
	if (h.boot && Number.isFinite(model.first)) put(new Date(Date.parse(h.boot) + model.first / ms).toISOString().replace("T", " ").slice(0, 19) + " UTC, " + duration(model.last - model.first));
	for (const s of h.request.specs) put(clean(s), "spec");
	for (const o of h.request.options) if (/^--(entry|allow|preset)=/.test(o)) put(clean(o.slice(2)), "spec");
}

// ended says what the recording lacks.
function ended() {
	if (model.end && model.end.error) notice("The recording ends early: " + clean(model.end.error), true);
	if (model.cut) notice("The page is cut off: events at its end are missing.", true);
	for (const line of model.notes.split("\n")) if (line) notice(clean(line.replace(/^ksnoop: /, "")), false);
}

function setFunctions() {
	const names = new Map();
	for (const e of model.events) if (e.fn) names.set(e.fn, (names.get(e.fn) || 0) + 1);
	const select = by("function");
	for (const [name, n] of [...names].sort((a, b) => b[1] - a[1]).slice(0, 500)) {
		const o = element("option", "", name + "  (" + count(n) + ")");
		o.value = name;
		select.append(o);
	}
}

const keys = [
	["/", "filter", () => by("filter").focus()],
	["Esc", "no filter", () => {}],
	["↓ ↑ or j k", "next event, the one before"],
	["PageDown PageUp Home End", "a page down, a page up, the first event, the last"],
	["e E", "next failure, the one before"],
	["Enter", "to the details of the event, where Enter unfolds"],
	["1 2 3 4", "the views, from left to right"],
	["← → + - on the timeline", "move, zoom"],
	["0", "all times"],
	["t", "light or dark"],
];

function showKeys() {
	const table = by("keys").querySelector("table");
	table.replaceChildren();
	for (const [key, what] of keys) {
		const tr = element("tr");
		tr.append(element("th", "", key), element("td", "", what));
		table.append(tr);
	}
	by("keys").showModal();
}

function theme() {
	const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
	root.dataset.theme = dark ? "light" : "dark";
	latency.stale = flame.stale = true;
	draw();
}

function clear() {
	Object.assign(filter, { text: "", fn: "", errors: false });
	by("filter").value = by("function").value = "";
	by("errors").checked = false;
	setRange(-Infinity, Infinity);
	rows.focus();
}

// pressed does what a key is for, and reports whether it is for something.
function pressed(ev) {
	const page = Math.max(1, Math.floor(rows.clientHeight / rowHeight) - 1), inDetail = detail.contains(document.activeElement);
	const tabs = [...document.querySelectorAll("[role=tab]")].filter((t) => !t.hidden);
	const at = { "/": () => (by("filter").focus(), by("filter").select()), t: theme, "?": showKeys, 0: () => setRange(-Infinity, Infinity), Escape: () => (inDetail ? rows.focus() : clear()), e: () => moveToError(1), E: () => moveToError(-1) };
	if (/^[1-4]$/.test(ev.key) && tabs[ev.key - 1]) return chooseView(tabs[ev.key - 1].dataset.view), true;
	if (at[ev.key]) return at[ev.key](), true;
	if (view !== "events" || inDetail || document.activeElement === timeline && /^Arrow(Left|Right)$/.test(ev.key)) return false;
	const moves = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -1e12, End: 1e12 };
	if (moves[ev.key]) return move(moves[ev.key]), true;
	if (ev.key === "Enter" && document.activeElement === rows) return (detail.querySelector("summary") || detail).focus(), true;
	return false;
}

function listen() {
	let waiting = 0;
	by("filter").addEventListener("input", () => {
		clearTimeout(waiting);
		waiting = setTimeout(() => {
			filter.text = by("filter").value;
			refresh();
		}, 60); // what is typed at once is one filter
	});
	by("function").addEventListener("change", () => {
		filter.fn = by("function").value;
		refresh();
	});
	by("errors").addEventListener("change", () => {
		filter.errors = by("errors").checked;
		refresh();
	});
	by("range").addEventListener("click", () => setRange(-Infinity, Infinity));
	for (const tab of document.querySelectorAll("[role=tab]")) tab.addEventListener("click", () => chooseView(tab.dataset.view));
	by("theme").addEventListener("click", theme);
	by("help").addEventListener("click", showKeys);
	by("close").addEventListener("click", () => by("keys").close());
	by("keys").querySelector("details").addEventListener("toggle", (ev) => {
		by("licenses").hidden = false;
		ev.target.append(by("licenses"));
	});
	rows.addEventListener("scroll", drawList);
	document.addEventListener("keydown", (ev) => {
		const typing = /^(INPUT|SELECT)$/.test(document.activeElement.tagName) && document.activeElement.type !== "checkbox";
		if (ev.ctrlKey || ev.altKey || ev.metaKey || by("keys").open) return;
		if (typing) {
			if (ev.key === "Escape" || (ev.key === "Enter" && document.activeElement === by("filter"))) {
				if (ev.key === "Escape" && document.activeElement === by("filter")) clear();
				rows.focus();
			}
			return;
		}
		if (pressed(ev)) ev.preventDefault();
	});
	new ResizeObserver(() => {
		flame.stale = latency.stale = true;
		draw();
	}).observe(document.querySelector("main"));
	listenToTimeline();
	listenToFlame();
}

// start reads the data. The first events are shown while the rest is read.
async function start() {
	const told = document.documentElement.dataset;
	by("reading").remove();
	listen();
	chooseView("events");
	showDetail(null);
	let drawn = -Infinity;
	await load(async () => {
		if (performance.now() - drawn > 500) {
			setLanes();
			allTimes();
			setColumns();
			about();
			const top = rows.scrollTop;
			refresh();
			rows.scrollTop = top; // somebody may read there
			by("shown").textContent += ", reading…";
			drawn = performance.now();
		}
		// Let the browser draw, and do what somebody wants.
		await new Promise((done) => (told.rows ? setTimeout(done) : requestAnimationFrame(() => setTimeout(done))));
		told.rows ??= performance.now().toFixed(0);
	});
	setLanes();
	allTimes();
	setColumns();
	model.lossEvents = model.events.filter((e) => e.kind === "loss");
	setFunctions();
	about();
	ended();
	drawTables();
	refresh();
	for (const tab of document.querySelectorAll("[role=tab]")) {
		tab.hidden = tab.dataset.view === "tables" ? !model.summaries.length : !model.events.length && model.summaries.length > 0;
	}
	if (!model.events.length && model.summaries.length) chooseView("tables");
	if (model.events.length === 1) choose(0);
	rows.focus();
	told.loaded = performance.now().toFixed(0);
}

// The script stands before the data, so that it can tell of a page that is cut off. It begins when all of the page is there.
document.addEventListener("DOMContentLoaded", () => start().catch((err) => notice("The page cannot be shown: " + clean(err.message), true)));
