// SPDX-License-Identifier: Apache-2.0

// Values of events, and what people read of them.

// big marks integers that a number of JavaScript does not hold. A recording cannot know it.
const big = crypto.getRandomValues(new Uint32Array(4)).join("-");

// parse parses a line of JSON without rounding integers.
function parse(line) {
	if (!/\d{16}/.test(line)) return JSON.parse(line);
	return JSON.parse(line.replace(/"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g, (m) => (m[0] === '"' ? m : `{"${big}":"${m}"}`)));
}

function isBig(v) {
	return v !== null && typeof v === "object" && Object.hasOwn(v, big);
}

// number returns an integer as a number, rounded if need be.
function number(v) {
	return isBig(v) ? Number(v[big]) : v;
}

// clean makes text safe to read: what is not printable, or changes the direction of text, is
// written as an escape.
function clean(text) {
	return String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]/gu, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

const ns = 1, us = 1e3, ms = 1e6, second = 1e9;

// duration writes ns.
function duration(n) {
	if (n < 0 || Number.isNaN(n)) return "";
	for (const [unit, name] of [[second, "s"], [ms, "ms"], [us, "µs"]]) {
		if (n >= unit) return (n / unit).toFixed(n / unit < 10 ? 3 : n / unit < 100 ? 2 : 1) + " " + name;
	}
	return n + " ns";
}

// count writes a number with separators.
function count(n) {
	return n.toLocaleString("en");
}

// counted writes a number of things.
function counted(n, thing) {
	return count(n) + " " + thing + (n === 1 ? "" : "s");
}

function isObject(v) {
	return v !== null && typeof v === "object" && !Array.isArray(v) && !isBig(v);
}

// has reports whether an object has some keys, and besides them only others that may be there.
function has(v, keys, may = []) {
	const own = Object.keys(v);
	return keys.every((k) => own.includes(k)) && own.every((k) => keys.includes(k) || may.includes(k));
}

const isPointer = (v) => isObject(v) && typeof v.addr === "string" && has(v, ["addr"], ["name", "value", "error"]);
const isEnum = (v) => isObject(v) && has(v, ["name", "value"], ["error"]) && !isObject(v.value);
const isResult = (v) => isObject(v) && has(v, ["value"], ["error"]);

// isZero reports whether a value is one that text leaves out of a struct.
function isZero(v) {
	if (v === 0 || v === false || v === "" || v === null) return true;
	if (isPointer(v)) return v.addr === "0x0";
	if (isEnum(v)) return v.value === 0;
	if (Array.isArray(v)) return v.every(isZero);
	return isObject(v) && Object.values(v).every(isZero);
}

// Integers of sessions are hexadecimal from here on, as in ksnoop's text: those of results and of other values.
const hexResult = 2 ** 20 + 1, hexValue = 4 * 2 ** 20;

// hexOf returns from where on a named value is hexadecimal, if others are from hex on: context values and dec() never are.
function hexOf(name, hex) {
	return /^(\$|dec\()/.test(name) ? Infinity : hex;
}

// plain writes a value that has no parts; undefined: it has some. Integers are hexadecimal from hex on.
function plain(v, hex = Infinity) {
	if (v === null || v === undefined) return "unreadable";
	if (Number.isInteger(number(v)) && number(v) >= hex) return "0x" + BigInt(isBig(v) ? v[big] : v).toString(16);
	if (isBig(v)) return v[big];
	if (typeof v === "string") return '"' + clean(v) + '"';
	if (typeof v !== "object") return String(v);
	if (isPointer(v)) {
		const at = v.error ? "-" + clean(v.error) : v.addr === "0x0" ? "NULL" : clean(v.addr) + (v.name ? " <" + clean(v.name) + ">" : "");
		return v.value === undefined || v.value === null ? at : undefined;
	}
	if (v.error && (isResult(v) || isEnum(v))) return "-" + clean(v.error);
	if (isEnum(v)) return v.name === null ? plain(v.value, hex) : clean(v.name);
	if (isResult(v)) return plain(v.value, Number.isFinite(hex) ? hexResult : hex);
	return undefined;
}

// flat writes a value on one line, of at most some characters.
function flat(v, most, hex) {
	let out = "";
	const put = (v, depth) => {
		if (out.length > most) return;
		const text = plain(v, hex);
		if (text !== undefined) {
			out += text;
		} else if (isPointer(v)) {
			if (typeof v.value !== "string") out += "&";
			put(v.value, depth);
		} else if (depth > 40) {
			out += "…";
		} else if (Array.isArray(v)) {
			out += "[";
			for (let i = 0; i < v.length && out.length <= most; i++) {
				if (i > 0) out += ", ";
				put(v[i], depth + 1);
			}
			out += "]";
		} else {
			out += "{";
			let first = true;
			for (const k of Object.keys(v)) {
				if (isZero(v[k])) continue;
				if (out.length > most) break;
				out += (first ? "" : ", ") + "." + clean(k) + "=";
				first = false;
				put(v[k], depth + 1);
			}
			out += "}";
		}
	};
	put(v, 0);
	return out.length > most ? out.slice(0, most - 1) + "…" : out;
}

// flatAll writes named values on one line, but for those that are shown elsewhere.
function flatAll(values, most, hex, ...without) {
	let out = "";
	for (const k of Object.keys(values || {})) {
		if (without.includes(k) || out.length > most) continue;
		out += (out ? "  " : "") + clean(k) + "=" + flat(values[k], most, hexOf(k, hex));
	}
	return out.length > most ? out.slice(0, most - 1) + "…" : out;
}

// element makes an element with a class and text. No other function of the page sets text.
function element(tag, className, content) {
	const e = document.createElement(tag);
	if (className) e.className = className;
	if (content !== undefined) e.textContent = content;
	return e;
}
