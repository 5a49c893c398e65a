// SPDX-License-Identifier: Apache-2.0

// Calls with the stacks that led to them. What counts as whose time is as in ksnoop's folded stacks
// (internal/samples): a test compares the sums.

// tallest is the most frames of a stack.
const tallest = 512;

function frameName(f) {
	return f.symbol === undefined ? clean(f.addr) : clean(f.symbol) + (f.module ? " [" + clean(f.module) + "]" : "");
}

// functionName returns the name of a function that an event refers to, as frames have it.
function functionName(o) {
	const f = model.header.functions[o.function];
	return clean(o.name ?? "?") + (f && f.module ? " [" + clean(f.module) + "]" : "");
}

// nodesOf returns the calls of a session, callers before what they call: those of its chains and of its
// trace, each once. full adds what is shown of them, and rows of the trace that are no calls.
function nodesOf(o, full) {
	const nodes = [], seen = new Map();
	const put = (c, n) => {
		const key = n.fn + " " + n.entry, known = seen.get(key);
		if (known !== undefined) return known;
		n.height = n.frames.length + (n.parent >= 0 ? nodes[n.parent].height : 0);
		if (n.height > tallest) n.parent = -1, n.height = n.frames.length;
		n.inside = 0;
		n.blamed = false;
		n.err = n.failed ? failure(c.result) : "";
		if (full) n.parts = [c];
		seen.set(key, nodes.push(n) - 1);
		if (n.parent >= 0) {
			nodes[n.parent].inside += n.length;
			nodes[n.parent].blamed ||= n.failed;
		}
		return nodes.length - 1;
	};
	for (const chain of [o, ...(o.interim || [])]) putChain(chain, put);
	if (o.trace) putTrace(o, put, nodes, full);
	if (nodes.length === 0) {
		put({}, { fn: functionName(o), parent: -1, entry: number(o.time), length: number(o.duration), failed: !!o.failed, frames: [functionName(o)] });
	}
	return nodes;
}

// putChain puts the calls of a chain, each with the kernel's functions that led from its caller to it. The innermost
// calls had returned when the stack was taken: all that is left of it led to them.
function putChain(chain, put) {
	const stack = chain.stack ? model.stacks.get(chain.stack) || [] : [], calls = chain.calls || [];
	const inStack = (c) => c.frame !== undefined && c.frame < stack.length;
	let outer = stack.length, parent = -1, left = calls.filter(inStack).length;
	for (const c of calls) {
		const frames = [], to = inStack(c) ? c.frame : left ? outer : 0;
		while (outer > to) frames.push(frameName(stack[--outer]));
		if (inStack(c)) left--;
		else frames.push(functionName(c));
		if (!frames.length) frames.push(functionName(c)); // of a stack that a damaged recording makes up
		parent = put(c, { fn: functionName(c), parent, entry: number(c.time), length: number(c.duration), failed: !!c.failed && !c.open, open: !!c.open, stitched: !!c.stitched, frames });
	}
}

// putTrace puts the calls of a trace. A call whose return was not seen lasts up to the next step that only its
// caller can have made, or to the session's end.
function putTrace(o, put, nodes, full) {
	const open = [], calls = [], end = number(o.time) + number(o.duration);
	const close = (depth, time) => {
		while (open.length > depth) {
			const c = open.pop();
			if (c && c.length === undefined) c.length = Math.max(0, time - c.entry), c.open = true;
		}
	};
	const caller = (depth) => {
		for (let d = Math.min(depth, open.length) - 1; d >= 0; d--) if (open[d]) return open[d];
		return null;
	};
	for (const s of o.trace) {
		const time = number(s.time), length = s.duration === undefined ? undefined : number(s.duration);
		if (s.step === "entry") {
			close(s.depth, time);
			const c = { step: s, entry: time, caller: caller(s.depth) };
			open[s.depth] = c;
			calls.push(c);
		} else if (s.step === "leaf") {
			close(s.depth, time - length);
			calls.push({ step: s, entry: time - length, length, caller: caller(s.depth), exit: s });
		} else if (s.step === "exit") {
			close(s.depth + 1, time);
			const c = open[s.depth];
			if (c && c.step.function === s.function) {
				c.length = length, c.exit = s;
			} else {
				calls.push({ step: s, entry: time - length, length, caller: caller(s.depth), exit: s });
			}
			open.length = Math.min(open.length, s.depth);
		} else if (full) {
			calls.push({ step: s, entry: s.time === undefined ? NaN : time, mark: true, caller: caller(s.depth) });
		}
	}
	close(0, end);
	for (const c of calls) {
		const parent = c.caller && c.caller.node !== undefined ? c.caller.node : -1, exit = c.exit;
		if (c.mark) {
			nodes.push({ fn: markText(c.step), parent, entry: c.entry, length: -1, mark: true, failed: false, frames: [], inside: 0, parts: [c.step] });
			continue;
		}
		const name = functionName(c.step), before = nodes.length;
		c.node = put(exit || c.step, { fn: name, parent, entry: c.entry, length: c.length, failed: !!(exit && exit.failed), open: !exit, frames: [name] });
		if (full) {
			const parts = nodes[c.node].parts;
			if (c.node < before || c.step !== parts[0]) parts.push(c.step);
			if (exit && exit !== c.step && !parts.includes(exit)) parts.push(exit);
		}
	}
}

// markText says what a row of a trace is that is no call.
function markText(s) {
	return s.step === "probe" ? clean(s.name) : s.step === "left" ? counted(number(s.count), "call") + " left out" : "something is missing here";
}

// eachSample calls f with the stack of each call of an event, outermost first, its time in itself, and whether a
// failure began in it.
function eachSample(e, f) {
	if (e.kind === "loss" || e.kind === "warning" || e.open) return;
	if (e.nodes) {
		const stacks = [];
		e.nodes.forEach((n, i) => {
			stacks[i] = n.parent >= 0 ? stacks[n.parent].concat(n.frames) : n.frames;
			f(stacks[i], n.length - Math.min(n.inside, n.length), n.failed && !n.blamed, n);
		});
		return;
	}
	const stack = (e.stack ? model.stacks.get(e.stack) || [] : []).map(frameName).reverse().slice(-tallest);
	stack.push(e.full);
	f(stack, Math.max(e.length, 0), e.bad, e);
}
