// SPDX-License-Identifier: Apache-2.0

// Which events are shown.

const filter = { text: "", fn: "", errors: false, from: -Infinity, to: Infinity };
let shown = []; // events that pass

// words takes a filter apart: words and phrases that must be there, those that must not, and durations.
function words(text) {
	const want = { all: [], none: [], above: -Infinity, below: Infinity };
	for (const [, minus, phrase, word] of text.toLowerCase().matchAll(/(-?)(?:"([^"]*)"?|([^\s"]+))/g)) {
		const bound = phrase === undefined && /^([<>])(\d+(?:\.\d+)?)(ns|us|µs|ms|s)$/.exec(word);
		if (bound) {
			const n = Number(bound[2]) * { ns, us, µs: us, ms, s: second }[bound[3]];
			if (bound[1] === ">") want.above = n;
			else want.below = n;
			continue;
		}
		const w = phrase ?? word;
		if (w) want[minus ? "none" : "all"].push(w);
	}
	return want;
}

// passes returns the test of the filter.
function passes() {
	const want = words(filter.text), { fn, errors, from, to } = filter;
	const bounded = want.above > -Infinity || want.below < Infinity;
	return (e) => {
		if (errors && !e.bad) return false;
		if (fn && e.fn !== fn) return false;
		if (e.start > to || e.start + Math.max(e.length, 0) < from) return false;
		if (bounded && !(e.length > want.above && e.length >= 0 && e.length < want.below)) return false;
		for (const w of want.all) if (!e.hay.includes(w)) return false;
		for (const w of want.none) if (e.hay.includes(w)) return false;
		return true;
	};
}
