// SPDX-License-Identifier: Apache-2.0

// The list of events. Only the rows that can be seen are in the page.

// rowHeight is that of a row, and tallestList the height from which browsers do not scroll any more.
const rowHeight = 24, tallestList = 8e6;

const list = { order: [], sort: "", down: false, chosen: -1, detail: -1, columns: [] };
const rows = document.querySelector("#list .rows"), rowWindow = rows.querySelector(".window"), rowRoom = rows.querySelector(".room");

// setColumns makes the head of the list.
function setColumns() {
	list.columns = [
		{ key: "start", title: "time", text: (e) => seconds(e.start) },
		{ key: "length", title: "duration", text: (e) => duration(e.length), right: true },
		{ key: "comm", title: "task", text: (e) => e.comm },
		{ key: "tid", title: "tid", text: (e) => e.tid ?? "", right: true },
		{ key: "fn", title: "function", text: (e) => (e.kind === "loss" || e.kind === "warning" ? e.kind : e.kind === "entry" ? "→ " + e.fn : e.kind === "return" ? "← " + e.fn : e.fn) },
		{ key: "result", title: "result", text: (e) => e.result },
		{ key: "", title: model.sessions ? "where it failed, arguments" : "values", text: (e) => e.values },
	];
	const head = document.querySelector("#list .head");
	head.replaceChildren();
	for (const c of list.columns) {
		const b = element(c.key ? "button" : "span", c.right ? "right" : "", c.title);
		if (c.key) b.addEventListener("click", () => sortBy(c.key));
		b.dataset.key = c.key;
		head.append(b);
	}
}

// seconds writes a time since the first event.
function seconds(t) {
	return Number.isFinite(t) ? "+" + ((t - model.first) / second).toFixed(6) : "";
}

function sortBy(key) {
	if (list.sort === key && list.down) list.sort = "";
	else [list.down, list.sort] = [list.sort === key, key];
	if (list.sort && list.sort === "length" && !list.down && list.was !== "length") list.down = true; // the longest first
	list.was = list.sort;
	sortList();
	rows.scrollTop = 0;
	drawList();
}

// sortList puts what is shown in order.
function sortList() {
	list.order = shown;
	const key = list.sort;
	if (key) {
		const sign = list.down ? -1 : 1;
		list.order = shown.slice().sort((a, b) => {
			const x = a[key] ?? "", y = b[key] ?? "";
			return sign * (x < y ? -1 : x > y ? 1 : 0) || a.index - b.index;
		});
	}
	list.places = null;
	for (const b of document.querySelectorAll("#list .head button")) {
		b.setAttribute("aria-sort", b.dataset.key !== key || !key ? "none" : list.down ? "descending" : "ascending");
	}
}

// place returns where an event is in the list; -1: it is not shown.
function place(index) {
	if (!list.places) list.places = new Map(list.order.map((e, i) => [e.index, i]));
	return list.places.get(index) ?? -1;
}

// drawList draws the rows that can be seen.
function drawList() {
	const all = list.order.length * rowHeight, height = rows.clientHeight, room = Math.min(all, tallestList);
	rowRoom.style.height = room + "px";
	rows.previousElementSibling.style.paddingRight = 14 + rows.offsetWidth - rows.clientWidth + "px"; // as wide as the rows beside their scroll bar
	const scale = room > height ? (all - height) / (room - height) : 1;
	const top = rows.scrollTop * scale, first = Math.max(0, Math.floor(top / rowHeight) - 4), last = Math.min(list.order.length, Math.ceil((top + height) / rowHeight) + 4);
	rowWindow.style.transform = `translateY(${rows.scrollTop + first * rowHeight - top}px)`;
	const made = [];
	for (let i = first; i < last; i++) made.push(row(list.order[i]));
	if (list.order.length === 0) made.push(element("p", "none", model.events.length ? "No event is like that." : "There are no events."));
	rowWindow.replaceChildren(...made);
}

function row(e) {
	const r = element("div", "row" + (e.bad ? " bad" : "") + (e.kind === "loss" || e.kind === "warning" ? " loss" : "") + (e.index === list.chosen ? " chosen" : ""));
	r.setAttribute("role", "row");
	r.id = "row-" + e.index;
	for (const c of list.columns) {
		const cell = element("span", c.right ? "right" : "", c.text(e));
		cell.setAttribute("role", "gridcell");
		r.append(cell);
	}
	r.addEventListener("click", () => choose(e.index));
	return r;
}

// choose shows an event, and scrolls to it.
function choose(index) {
	list.chosen = index;
	const at = place(index);
	if (at >= 0) {
		const all = list.order.length * rowHeight, height = rows.clientHeight, room = Math.min(all, tallestList), scale = room > height ? (all - height) / (room - height) : 1;
		const top = rows.scrollTop * scale, y = at * rowHeight;
		if (y < top) rows.scrollTop = y / scale;
		else if (y + rowHeight > top + height) rows.scrollTop = (y + rowHeight - height) / scale;
	}
	rows.setAttribute("aria-activedescendant", "row-" + index);
	drawList();
	drawTimeline();
	showChosen(true);
}

// showChosen shows what is known of the chosen event, if that passes the filter, and shows it anew only if asked to.
function showChosen(anew) {
	const index = place(list.chosen) < 0 ? -1 : list.chosen;
	if (index === list.detail && !anew) return;
	list.detail = index;
	showDetail(model.events[index]);
}

// move chooses the event that is some rows further on.
function move(by) {
	if (!list.order.length) return;
	const chosen = place(list.chosen), at = chosen < 0 && by < 0 ? list.order.length : chosen;
	choose(list.order[Math.max(0, Math.min(list.order.length - 1, at + by))].index);
}

// moveToError chooses the next event that failed, or the one before.
function moveToError(by) {
	for (let i = place(list.chosen) + by; i >= 0 && i < list.order.length; i += by) {
		if (list.order[i].bad) return choose(list.order[i].index);
	}
}
