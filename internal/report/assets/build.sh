#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes vendor.js, vendor.css and LICENSES.txt of the packages of npm that package-lock.json
# names, and SHA256SUMS of all files here: make report-assets. It takes npm.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here"
cp package.json package-lock.json entry.js "$work"
cd "$work"
npm ci --silent --no-audit --no-fund
npx esbuild entry.js --bundle --minify --format=iife --target=es2020 --charset=ascii --legal-comments=none --log-level=warning --outfile=vendor.js
for license in node_modules/*/LICENSE; do
	package=${license#node_modules/}
	package=${package%/LICENSE}
	[ "$package" != esbuild ] || continue # it is not in the page
	echo "==== $package $(node -p "require('./node_modules/$package/package.json').version")"
	echo
	cat "$license"
	echo
done >LICENSES.txt
cp vendor.js vendor.css LICENSES.txt "$here"
cd "$here"
sha256sum LICENSES.txt build.sh entry.js package-lock.json package.json vendor.css vendor.js >SHA256SUMS
