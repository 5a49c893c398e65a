// SPDX-License-Identifier: Apache-2.0

// The events of the page, as they are read.

// rowText is how much of an event's values a row shows, and searchText how much is searched, in characters.
const rowText = 240, searchText = 4000;

const model = {
	header: null,
	stacks: new Map(), // by ID: frames, innermost first
	cgroups: new Map(), // by ID, as text: paths
	events: [],
	summaries: [],
	end: null,
	cut: false, // a part is not whole
	notes: "",
	first: Infinity, // ns
	last: -Infinity,
	sessions: false, // rather than calls
};

// unpack returns the text of a part. Of one that is cut off it has the lines that are whole.
async function unpack(part) {
	const [text] = part.textContent.match(/^[A-Za-z0-9+/=]*/), packed = atob(text.slice(0, text.length - (text.length % 4)));
	part.remove(); // it is read once
	const bytes = new Uint8Array(packed.length);
	for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).pipeThrough(new TextDecoderStream());
	let out = "";
	try {
		for (const reader = stream.getReader(); ; ) {
			const { done, value } = await reader.read();
			if (done) return out;
			out += value;
		}
	} catch {
		model.cut = true;
		return out.slice(0, out.lastIndexOf("\n") + 1);
	}
}

// load reads all parts, and tells after each.
async function load(tell) {
	for (const part of document.querySelectorAll("script.events")) {
		for (const line of (await unpack(part)).split("\n")) {
			if (line) read(line);
		}
		await tell();
	}
	const notes = document.querySelector("script.notes");
	if (notes) model.notes += await unpack(notes);
	else model.cut = true;
}

// read takes a line.
function read(line) {
	const o = parse(line);
	switch (o.kind) {
	case "header":
		model.header = o;
		break;
	case "stack":
		model.stacks.set(o.id, o.frames);
		break;
	case "cgroup":
		model.cgroups.set(plain(o.id), clean(o.path));
		break;
	case "summary":
		model.summaries.push(o);
		break;
	case "end":
		model.end = o;
		break;
	case "session":
		model.sessions = true;
		add(sessionOf(o, line));
		break;
	case "loss":
	case "warning":
		add({ kind: o.kind, start: number(o.time ?? model.last), length: 0, fn: "", comm: "", err: "", bad: true, result: "", values: count(number(o.count)) + " " + clean(o.text), line });
		break;
	case "call":
	case "entry":
	case "return":
		add(callOf(o, line));
		break;
	default:
		model.notes += "the page has no place for what is called " + clean(o.kind) + "\n";
	}
}

// add adds an event, with the text that is searched.
function add(e) {
	e.index = model.events.length;
	e.hay = (e.fn + " " + e.comm + " " + (e.pid ?? "") + " " + (e.tid ?? "") + " " + e.result + " " + e.err + " " + (e.more ?? e.values)).toLowerCase();
	delete e.more;
	model.events.push(e);
	if (Number.isFinite(e.start)) {
		model.first = Math.min(model.first, e.start);
		model.last = Math.max(model.last, e.start + Math.max(e.length, 0));
	}
}

function callOf(o, line) {
	const result = o.values.return, time = number(o.time), values = flatAll(o.values, searchText, Infinity, "return", "$duration");
	let length = o.duration === undefined ? -1 : number(o.duration);
	const start = time - Math.max(length, 0);
	if (o.values.$duration !== undefined && o.values.$duration !== null) length = number(o.values.$duration);
	return {
		kind: o.kind, start, length, fn: clean(o.name), full: functionName(o), comm: clean(o.comm), pid: o.pid, tid: o.tid, cpu: o.cpu, stack: o.stack,
		err: result && result.error ? "-" + clean(result.error) : "", bad: !!(result && result.error),
		result: result === undefined ? (o.missing ? "(" + o.missing + ")" : o.kind === "entry" ? "…" : "") : flat(result, 80),
		values: values.length > rowText ? values.slice(0, rowText) + "…" : values, more: values, line,
	};
}

function sessionOf(o, line) {
	const nodes = nodesOf(o, false), calls = o.calls || [], leaf = calls[calls.length - 1], entry = calls[0];
	const failed = calls.find((c) => c.failed && !c.open); // the outermost call whose result can show an error has that of the session
	const args = (entry && flatAll(entry.args || entry.values, rowText, hexValue)) || flatAll((o.trace?.[0] || {}).args, rowText, hexValue);
	const err = o.failed && failed ? failure(failed.result) : "";
	let more = o.state === "returned" ? "" : o.state + " ";
	for (const n of nodes) {
		more += n.fn + " " + (n.err || "") + " ";
		if (more.length > searchText) break;
	}
	for (const c of [...calls, ...(o.trace || [])]) {
		if (more.length > searchText) break;
		more += flatAll(c.args, rowText, hexValue) + " " + flatAll(c.values, rowText, hexValue) + " ";
	}
	const where = o.failed && leaf && calls.length > 1 ? "in " + clean(leaf.name) + (failure(leaf.result) !== err ? " [" + failure(leaf.result) + "]" : "") + "   " : "";
	return {
		kind: "session", start: number(o.time), length: number(o.duration), fn: clean(o.name ?? ""), comm: clean(o.comm), pid: o.pid, tid: o.tid, cpu: o.cpu,
		err, bad: o.failed, result: err || (o.state !== "returned" ? o.state : entry && entry.result && !entry.open ? flat(entry.result, 40, hexValue) : ""),
		values: where + args, more, nodes, line, open: o.state === "hung",
	};
}

// failure names the error of a call that failed.
function failure(result) {
	return !result ? "" : result.error ? "-" + clean(result.error) : result.addr === "0x0" ? "NULL" : flat(result, 40, hexValue);
}
