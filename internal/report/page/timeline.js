// SPDX-License-Identifier: Apache-2.0

// The timeline. Threads of one name share a lane unless they were there at the same time. It is one canvas of what
// can be seen.

const timeline = document.getElementById("timeline"), canvas = timeline.querySelector("canvas"), tip = timeline.querySelector(".tip");
const gutter = 150, axis = 20, laneMost = 18, laneLeast = 4;
const times = { from: 0, to: 1, threads: new Map(), seen: 0, lanes: [], drag: null };

// setLanes gives each thread a lane: those of the names that came first are on top.
function setLanes() {
	for (; times.seen < model.events.length; times.seen++) {
		const e = model.events[times.seen];
		if (e.tid === undefined) continue;
		const key = e.tid + " " + e.comm, end = e.start + Math.max(e.length, 0);
		let t = times.threads.get(key);
		if (!t) times.threads.set(key, (t = { comm: e.comm, tid: e.tid, from: e.start, to: end, lane: 0 }));
		t.from = Math.min(t.from, e.start);
		t.to = Math.max(t.to, end);
		e.thread = t;
	}
	const names = new Map(); // lanes of each
	for (const t of [...times.threads.values()].sort((a, b) => a.from - b.from)) {
		if (!names.has(t.comm)) names.set(t.comm, []);
		const lanes = names.get(t.comm);
		let lane = lanes.find((l) => l.to < t.from);
		if (!lane) lanes.push((lane = { name: t.comm, tid: t.tid, threads: 0 }));
		lane.to = t.to;
		lane.threads++;
		t.lane = lane;
	}
	times.lanes = [...names.values()].flat();
	times.lanes.forEach((l, i) => {
		l.at = i;
		l.text = l.name + (l.threads > 1 ? " ×" + l.threads : " " + l.tid);
	});
	timeline.style.height = axis + 4 + Math.min(8, Math.max(2, times.lanes.length)) * laneMost + "px";
}

// laneOf returns the number of an event's lane; -1: it has none.
function laneOf(e) {
	return e.thread ? e.thread.lane.at : -1;
}

function allTimes() {
	const room = Math.max(1, model.last - model.first) * 0.01;
	[times.from, times.to] = Number.isFinite(model.first) ? [model.first - room, model.last + room] : [0, 1];
}

const scaleOf = () => (canvas.clientWidth - gutter) / (times.to - times.from);
const xOf = (t) => gutter + (t - times.from) * scaleOf();
const timeOf = (x) => times.from + (x - gutter) / scaleOf();
const laneHeight = () => Math.max(laneLeast, Math.min(laneMost, (timeline.clientHeight - axis) / Math.max(1, times.lanes.length)));

function colour(name) {
	return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

// drawTimeline draws what can be seen. What lies on one point is drawn once, failures over all else.
function drawTimeline() {
	const width = timeline.clientWidth, height = timeline.clientHeight, dpr = window.devicePixelRatio || 1;
	if (!width || !model.events.length) return;
	canvas.width = width * dpr, canvas.height = height * dpr;
	canvas.style.width = width + "px", canvas.style.height = height + "px";
	const high = laneHeight(), top = timeline.scrollTop, g = canvas.getContext("2d");
	timeline.querySelector(".room").style.height = axis + high * times.lanes.length + "px";
	g.scale(dpr, dpr);
	g.clearRect(0, 0, width, height);
	g.font = "11px system-ui, sans-serif";
	g.textBaseline = "middle";
	drawAxis(g, width, height);
	g.save();
	g.beginPath();
	g.rect(0, axis, width, height - axis);
	g.clip();
	drawLanes(g, width, height, high, top);
	const y = (e) => axis + laneOf(e) * high - top, gap = high > 8 ? 2 : high > 4 ? 1 : 0, scale = scaleOf();
	for (const bad of [false, true]) {
		g.fillStyle = colour(bad ? "bad" : "bar");
		const ends = new Float64Array(times.lanes.length).fill(-1);
		for (const e of shown) {
			if (e.bad !== bad || !e.thread) continue;
			let x = gutter + (e.start - times.from) * scale, end = x + Math.max(e.length, 0) * scale;
			const at = y(e), lane = laneOf(e);
			if (end < gutter || x > width || at + high < axis || at > height) continue;
			x = Math.max(x, gutter), end = Math.min(Math.max(end, x + (bad ? 2 : 1)), width);
			if (end - x <= 2 && Math.floor(end) <= ends[lane]) continue;
			ends[lane] = Math.floor(end);
			g.fillRect(x, at + gap / 2, end - x, high - gap);
		}
	}
	drawMarks(g, height);
	const e = model.events[list.detail];
	if (e && e.thread) {
		g.strokeStyle = colour("text");
		g.lineWidth = 2;
		const x = Math.max(gutter, xOf(e.start));
		if (x < width) g.strokeRect(x - 1, y(e), Math.max(4, Math.min(width, xOf(e.start + Math.max(e.length, 0))) - x + 2), high);
	}
	g.restore();
	if (times.drag && times.drag.moved) {
		g.fillStyle = colour("brush");
		g.fillRect(Math.min(times.drag.x, times.drag.now), axis, Math.abs(times.drag.now - times.drag.x), height);
	}
}

// drawMarks draws where records are missing.
function drawMarks(g, height) {
	g.fillStyle = colour("loss");
	for (const e of model.lossEvents ?? []) {
		const x = xOf(e.start);
		if (x >= gutter) g.fillRect(x - 1, axis, 2, height - axis);
	}
}

function drawLanes(g, width, height, high, top) {
	const first = Math.floor(top / high), last = Math.min(times.lanes.length, Math.ceil((top + height) / high));
	for (let i = first; i < last; i++) {
		const y = axis + i * high - top;
		if (i % 2 && high > 6) {
			g.fillStyle = colour("lane");
			g.fillRect(0, y, width, high);
		}
		if (high >= 10) {
			g.fillStyle = colour("faint");
			g.textAlign = "right";
			g.fillText(times.lanes[i].text.slice(-24), gutter - 8, y + high / 2, gutter - 12);
		}
	}
	if (high < 10) {
		g.fillStyle = colour("faint");
		g.textAlign = "right";
		g.fillText(times.lanes.length + " lanes", gutter - 8, axis + 10, gutter - 12);
	}
}

function drawAxis(g, width, height) {
	const wide = times.to - times.from, raw = (wide * 110) / Math.max(1, width - gutter), power = 10 ** Math.floor(Math.log10(raw));
	const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
	g.textAlign = "center";
	for (let t = Math.ceil((times.from - model.first) / step) * step; t <= times.to - model.first; t += step) {
		const x = xOf(model.first + t);
		if (x < gutter) continue;
		g.fillStyle = colour("line");
		g.fillRect(x, axis - 4, 1, height);
		g.fillStyle = colour("faint");
		const text = t < step / 2 && t > -step / 2 ? "0" : (t < 0 ? "-" : "+") + duration(Math.abs(Math.round(t)));
		g.fillText(text, Math.min(x, width - g.measureText(text).width / 2 - 2), 8);
	}
}

// eventAt returns the event at a point: the shortest, and rather one that failed.
function eventAt(x, y) {
	if (x < gutter || y < axis) return null;
	const lane = Math.floor((y - axis + timeline.scrollTop) / laneHeight()), slack = 3 / scaleOf(), t = timeOf(x);
	let best = null;
	for (const e of shown) {
		if (laneOf(e) !== lane || t < e.start - slack || t > e.start + Math.max(e.length, 0) + slack) continue;
		if (!best || (e.bad && !best.bad) || (e.bad === best.bad && e.length < best.length)) best = e;
	}
	return best;
}

function zoom(by, at) {
	const t = at ?? (times.from + times.to) / 2, wide = Math.max(100, (times.to - times.from) * by), share = (t - times.from) / (times.to - times.from);
	times.from = t - share * wide;
	times.to = times.from + wide;
	drawTimeline();
}

function pan(share) {
	const by = (times.to - times.from) * share;
	times.from += by;
	times.to += by;
	drawTimeline();
}

// setRange shows the events of a time only.
function setRange(from, to) {
	[filter.from, filter.to] = [from, to];
	if (Number.isFinite(from)) [times.from, times.to] = [from, to];
	else allTimes();
	refresh();
}

function listenToTimeline() {
	timeline.addEventListener("wheel", (ev) => {
		if (ev.shiftKey) return;
		const scrolls = timeline.scrollHeight > timeline.clientHeight + 1;
		if (scrolls && !ev.ctrlKey) return; // it moves the lanes
		ev.preventDefault();
		zoom(ev.deltaY > 0 ? 1.25 : 0.8, timeOf(ev.offsetX));
	}, { passive: false });
	timeline.addEventListener("scroll", drawTimeline);
	canvas.addEventListener("mousedown", (ev) => {
		if (ev.button === 0 && ev.offsetX >= gutter) times.drag = { x: ev.offsetX, now: ev.offsetX, moved: false };
	});
	canvas.addEventListener("mousemove", hover);
	canvas.addEventListener("mouseleave", () => (tip.hidden = true));
	window.addEventListener("mouseup", (ev) => {
		const d = times.drag;
		times.drag = null;
		if (!d) return;
		if (d.moved) {
			setRange(...[timeOf(d.x), timeOf(d.now)].sort((a, b) => a - b));
		} else if (ev.target === canvas) {
			const e = eventAt(ev.offsetX, ev.offsetY);
			if (e) choose(e.index);
		}
	});
	canvas.addEventListener("dblclick", () => setRange(-Infinity, Infinity));
	timeline.addEventListener("keydown", (ev) => {
		const does = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4) }[ev.key];
		if (!does) return;
		ev.preventDefault();
		does();
	});
}

function hover(ev) {
	if (times.drag) {
		times.drag.now = Math.max(gutter, ev.offsetX);
		times.drag.moved ||= Math.abs(times.drag.now - times.drag.x) > 4;
		drawTimeline();
		return;
	}
	const e = eventAt(ev.offsetX, ev.offsetY);
	tip.hidden = !e;
	if (!e) return;
	tip.textContent = `${seconds(e.start)}  ${e.fn}  ${e.result}  ${duration(e.length)}  ${e.comm} ${e.tid}`;
	tip.style.left = Math.min(ev.offsetX + 12, timeline.clientWidth - 320) + "px";
	tip.style.top = timeline.scrollTop + Math.min(ev.offsetY + 14, timeline.clientHeight - 30) + "px";
}
