// SPDX-License-Identifier: Apache-2.0

// What the page uses of packages of npm. build.sh makes vendor.js and vendor.css of it.
import flamegraph from "d3-flame-graph";
import { select } from "d3-selection";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

window.vendored = { flamegraph, select, uPlot };
