// SPDX-License-Identifier: Apache-2.0

// The flame graph of what is shown.

const { flamegraph, select, uPlot } = window.vendored;
const flame = { chart: null, root: null, stale: true };

// flameOf adds up the stacks of events.
function flameOf(events, weight) {
	const root = { name: "all", value: 0, children: [], byName: new Map() };
	for (const e of events) {
		eachSample(e, (stack, time, bad, node) => {
			const n = weight === "calls" ? 1 : weight === "errors" ? (bad ? 1 : 0) : time;
			if (!(n > 0)) return;
			let at = root;
			at.value += n;
			for (const name of stack) {
				let next = at.byName.get(name);
				if (!next) {
					next = { name, value: 0, children: [], byName: new Map(), traced: 0, bad: 0 };
					at.byName.set(name, next);
					at.children.push(next);
				}
				at = next;
				at.value += n;
			}
			at.traced++;
			if (node.failed || node.bad) at.bad++;
		});
	}
	const finish = (node) => {
		delete node.byName;
		node.children.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
		node.children.forEach(finish);
	};
	finish(root);
	return root;
}

function weightText(n) {
	const weight = document.getElementById("weight").value;
	return weight === "time" ? duration(n) : count(n) + " " + weight;
}

function drawFlame() {
	if (!flame.stale) return;
	flame.stale = false;
	const box = document.getElementById("flame"), weight = document.getElementById("weight").value;
	box.replaceChildren();
	const root = (flame.root = flameOf(shown, weight));
	document.getElementById("frame").textContent = weightText(root.value);
	if (!root.children.length) {
		box.append(element("p", "none", weight === "time" ? "No durations are known: record calls with both ends, or sessions." : "There is nothing to add up."));
		return;
	}
	flame.chart = flamegraph().width(Math.max(300, box.clientWidth - 28)).cellHeight(20).minFrameSize(1).transitionDuration(120).inverted(true)
		.setLabelHandler((d) => d.data.name + "   " + weightText(d.data.value) + "   " + ((100 * d.data.value) / root.value).toFixed(1) + " %" + (d.data.bad ? "   " + d.data.bad + " failed calls" : ""))
		.setColorMapper((d) => (d.highlight ? colour("found") : frameColour(d)))
		.setSearchMatch((d, term) => !!term && d.data.name.toLowerCase().includes(term.toLowerCase()))
		.setSearchHandler((found, sum) => (document.getElementById("frame").textContent = counted(found.length, "frame") + ", " + weightText(sum) + " of " + weightText(root.value)))
		.setDetailsElement(document.getElementById("frame")).setDetailsHandler((text) => (document.getElementById("frame").textContent = text || weightText(root.value)));
	select(box).datum(root).call(flame.chart);
	find();
}

// frameColour tells failed calls, traced functions, modules and the rest of the kernel apart; a name always has the
// same shade.
function frameColour(d) {
	let h = 0;
	for (let i = 0; i < d.data.name.length; i++) h = (h * 31 + d.data.name.charCodeAt(i)) | 0;
	const shade = 62 + (Math.abs(h) % 14), hue = d.depth === 0 ? 0 : d.data.bad ? 4 : d.data.traced ? 36 : d.data.name.endsWith("]") ? 190 : 214;
	return `hsl(${hue} ${d.depth === 0 ? 0 : d.data.bad || d.data.traced ? 78 : 38}% ${shade}%)`;
}

function find() {
	const text = document.getElementById("find").value;
	if (!flame.chart || !flame.root.children.length) return;
	if (text) flame.chart.search(text);
	else {
		flame.chart.clear();
		document.getElementById("frame").textContent = weightText(flame.root.value);
	}
}

function listenToFlame() {
	document.getElementById("weight").addEventListener("change", () => {
		flame.stale = true;
		drawFlame();
	});
	document.getElementById("find").addEventListener("input", find);
	document.getElementById("unzoom").addEventListener("click", () => flame.chart && flame.chart.resetZoom());
}
