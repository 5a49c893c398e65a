// SPDX-License-Identifier: Apache-2.0

// What is known of the chosen event: values, call tree, stack.

const detail = document.getElementById("detail");

// treeOpen is how many calls of a session are unfolded at first, and treeMost how many are shown of one caller
// before somebody asks for more.
const treeOpen = 400, treeMost = 500;

function showDetail(e) {
	detail.replaceChildren();
	detail.scrollTop = 0;
	if (!e) {
		detail.append(element("p", "none", "Choose an event: click it, or use the arrow keys."));
		return;
	}
	const o = parse(e.line);
	const title = element("h2", "", e.fn || e.kind);
	if (e.bad) title.append(element("span", "badge bad", e.err || e.kind));
	if (o.state && o.state !== "returned") title.append(element("span", "badge", o.state));
	detail.append(title, facts(e, o));
	if (o.kind === "session") showSession(e, o);
	else if (o.values) showCall(o);
	else detail.append(element("p", "", count(number(o.count)) + " " + clean(o.text)));
	for (const [name, text] of [["no_stack", "no stack: "], ["no_user_stack", "no stack of the process: "], ["no_branches", "no branches: "], ["user_names", ""]]) {
		if (o[name]) detail.append(element("p", "note", text + clean(o[name])));
	}
}

function facts(e, o) {
	const dl = element("dl");
	const put = (name, text) => {
		if (text === "" || text === undefined) return;
		dl.append(element("dt", "", name), element("dd", "", text));
	};
	put("time", seconds(e.start) + (o.wall ? "   " + clean(o.wall) : ""));
	put("duration", duration(e.length));
	if (o.comm !== undefined) {
		put("task", e.comm + (o.leader && o.leader !== o.comm ? " of " + clean(o.leader) : "") + "   pid " + o.pid + (o.tid !== o.pid ? "  tid " + o.tid : "")
			+ (o.namespace ? "   (in its namespace " + o.namespace.pid + "/" + o.namespace.tid + ")" : ""));
	}
	put("CPU", o.cpu === undefined ? "" : o.cpu + (o.interrupt ? ", an interrupt" : ""));
	put("user", o.uid);
	put("cgroup", o.cgroup && (model.cgroups.get(plain(o.cgroup)) ?? plain(o.cgroup)));
	put("missing", o.missing && clean(o.missing));
	put("lost in it", o.lost && Object.entries(o.lost).map(([k, n]) => (n === true ? "" : n + " ") + clean(k)).join(", "));
	return dl;
}

function showCall(o) {
	detail.append(heading("Values"));
	values(detail, o, o.values, Infinity);
	if (o.path) stack("Way", [clean(o.path.text), ...o.path.decisions.map(decision)], false);
	if (o.no_path) detail.append(element("p", "note", "no way: " + clean(o.no_path)));
	if (o.stack) stack("Stack", (model.stacks.get(o.stack) || []).map(frameText), o.stack_cut);
	if (o.user_stack) stack("Stack of the process", o.user_stack.map((f) => clean(f.text)), o.user_stack_cut);
	if (o.branches) stack("Branches, newest first", o.branches.map((b) => frameText(b.from) + " → " + frameText(b.to)), !o.all_branches);
}

// decision is which way a conditional jump went, with what it compared.
function decision(d) {
	const operands = d.operands.map((x) => clean(x.name) + (x.value === undefined ? "" : " = " + x.value));
	return [d.at, d.compare ?? "", operands.join(", "), d.jump, d.to ? "to " + d.to : "not taken"].map(clean).filter(Boolean).join("  ");
}

function showSession(e, o) {
	detail.append(heading("Calls"));
	tree(detail, nodesOf(o, true), e);
	const frames = o.stack ? model.stacks.get(o.stack) || [] : [];
	if (frames.length) stack("Stack of the " + (o.failed ? "failure" : "last call"), frames.map(frameText));
	if (o.branches) stack("Branches, newest first", o.branches.map((b) => frameText(b.from) + " → " + frameText(b.to)), !o.all_branches);
}

function heading(text) {
	return element("h3", "", text);
}

function frameText(f) {
	return frameName(f) + (f.offset && !f.inlined ? "+0x" + f.offset.toString(16) : "") + (f.inlined ? "  (inlined)" : "") + (f.file ? "   " + clean(f.file) + ":" + f.line : "");
}

function stack(title, lines, cut) {
	const ol = element("ol", "stack");
	for (const line of lines) ol.append(element("li", "", line));
	if (cut) ol.append(element("li", "faint", "… there is more that was not taken"));
	detail.append(heading(title), ol);
}

// values shows named values with what is said of them. Integers are hexadecimal from hex on.
function values(to, o, named, hex) {
	for (const name of Object.keys(named || {})) to.append(value(clean(name), named[name], 0, hexOf(name, hex)));
	for (const name of Object.keys(o.unreadable || {})) to.append(element("p", "note", clean(name) + ": " + clean(o.unreadable[name])));
	if (o.cut) to.append(element("p", "note", "only the beginning was captured of " + o.cut.map(clean).join(", ")));
}

// value shows a value, its parts when it is unfolded. Members that are zero come when they are asked for.
function value(name, v, depth, hex) {
	const text = plain(v, hex);
	if (text !== undefined) {
		const line = element("div", "value");
		line.append(element("span", "name", name), element("span", v && v.error ? "text badtext" : "text", text));
		return line;
	}
	const box = element("details", "value"), head = element("summary");
	head.append(element("span", "name", name), element("span", "text faint", flat(v, 120, hex)));
	box.append(head);
	box.addEventListener("toggle", () => {
		if (box.open && box.childElementCount === 1) parts(box, v, depth + 1, hex);
	});
	box.open = depth === 0;
	return box;
}

function parts(box, v, depth, hex) {
	const of = isPointer(v) ? v.value : v;
	if (isPointer(v)) box.append(element("div", "value faint", "at " + clean(v.addr)));
	if (of === null || typeof of !== "object" || plain(of) !== undefined) {
		box.append(value("*", of, depth, hex));
		return;
	}
	const zero = [];
	for (const k of Object.keys(of)) {
		if (!Array.isArray(of) && isZero(of[k])) zero.push(k);
		else box.append(value((Array.isArray(of) ? "[" : ".") + clean(k) + (Array.isArray(of) ? "]" : ""), of[k], depth, hex));
	}
	if (!zero.length) return;
	const more = element("button", "more", zero.length + (zero.length === 1 ? " member is zero" : " members are zero"));
	more.addEventListener("click", () => more.replaceWith(...zero.map((k) => value("." + clean(k), of[k], depth, hex))));
	box.append(more);
}

// tree shows the calls of a session.
function tree(to, nodes, e) {
	const children = new Map(); // by parent
	nodes.forEach((n, i) => {
		if (!children.has(n.parent)) children.set(n.parent, []);
		children.get(n.parent).push(i);
	});
	for (const c of children.values()) c.sort((a, b) => nodes[a].entry - nodes[b].entry || a - b);
	const t = { nodes, children, whole: Math.max(1, e.length), left: treeOpen };
	const box = element("div", "tree");
	branch(box, t, children.get(-1) || []);
	to.append(box);
}

// branch shows calls, and those that they made.
function branch(to, t, calls) {
	for (const i of calls.slice(0, treeMost)) to.append(call(t, i));
	if (calls.length <= treeMost) return;
	const more = element("button", "more", counted(calls.length - treeMost, "more call"));
	more.addEventListener("click", () => {
		more.remove();
		branch(to, t, calls.slice(treeMost));
	});
	to.append(more);
}

function call(t, i) {
	const n = t.nodes[i], made = t.children.get(i) || [], hasParts = n.parts.some((p) => p.args || p.values);
	t.left--;
	const line = callLine(t, n);
	if (!made.length && !hasParts) {
		line.classList.add("leaf");
		return line;
	}
	const box = element("details", "call"), head = element("summary");
	head.append(line);
	box.append(head);
	const fill = () => {
		if (!box.open || box.childElementCount > 1) return;
		if (hasParts) box.append(captured(n));
		branch(box, t, made);
	};
	box.addEventListener("toggle", fill);
	if (t.left > 0 && made.length) {
		box.open = true;
		fill();
	}
	return box;
}

// captured shows what was captured of a call. A chain and the trace may both have it.
function captured(n) {
	const box = element("details", "captured"), seen = new Set();
	box.append(element("summary", "faint", "values"));
	box.addEventListener("toggle", () => {
		if (box.childElementCount > 1) return;
		for (const p of n.parts) {
			for (const of of [p.args, p.values]) {
				const fresh = Object.fromEntries(Object.entries(of || {}).filter(([k, v]) => !seen.has(k + JSON.stringify(v))));
				for (const k of Object.keys(fresh)) seen.add(k + JSON.stringify(fresh[k]));
				if (Object.keys(fresh).length) values(box, p, fresh, hexValue);
			}
		}
	});
	return box;
}

function callLine(t, n) {
	const line = element("span", "callline" + (n.failed ? " bad" : ""));
	if (n.mark) {
		line.append(element("span", "faint", n.fn));
		return line;
	}
	const between = n.frames.slice(0, -1);
	if (between.length) line.append(element("span", "between faint", between.join(" › ") + " › "));
	line.append(element("span", "fn", n.fn));
	const result = n.parts.map((p) => p.result).find((r) => r !== undefined);
	if (n.failed) line.append(element("span", "badge bad", n.err));
	else if (n.open) line.append(element("span", "badge", "not returned"));
	else if (result) line.append(element("span", "result", flat(result, 60, hexValue)));
	if (n.stitched) line.append(element("span", "badge", "earlier"));
	const bar = element("span", "share"), inner = element("span");
	inner.style.width = Math.min(100, (100 * n.length) / t.whole) + "%";
	bar.append(inner);
	line.append(bar, element("span", "length", duration(n.length)));
	const first = n.parts.find((p) => p.args) || n.parts.find((p) => p.values) || {};
	const args = flatAll(first.args || first.values, 160, hexValue, "return", "$duration");
	if (args) line.append(element("span", "args faint", args));
	return line;
}
