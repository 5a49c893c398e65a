# SPDX-License-Identifier: Apache-2.0
#
# Everything that needs more than `go build`: what is missing is installed by
# `setup`, and tests of live kernels run in QEMU guests, so no target but setup
# needs root.

.PHONY: build install dist image man docs report-assets generate setup setup-guest setup-tools check generated test test-all test-unit test-live test-fleet test-ways test-debuginfo demo bench soak sweep clean

GO      ?= go
SUDO    := $(if $(filter 0,$(shell id -u)),,sudo)
TESTRUN := $(GO) run ./internal/vm/testrun
GUEST   := $(GO) run ./internal/vm/guestrun

# What a guest needs, and what the checks and the tests' oracles need beyond that.
GUEST_PACKAGES := qemu-system-x86 qemu-system-arm busybox-static xz-utils gcc libc6-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross dwarves
PACKAGES       := $(GUEST_PACKAGES) qemu-user git clang llvm llvm-19 lld g++ rustc musl-tools gdb dwz libbpf-dev systemtap-sdt-dev jq groff-base tmux zsh fish

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o ksnoop ./cmd/ksnoop

# Where make install puts what make build has made, with man pages and completions. Root may have no Go.
PREFIX ?= /usr/local
SHARE  := $(DESTDIR)$(PREFIX)/share

install:
	install -Dm755 ksnoop $(DESTDIR)$(PREFIX)/bin/ksnoop
	install -d $(SHARE)/man/man1
	install -m644 docs/man/*.1 $(SHARE)/man/man1
	./ksnoop completion bash | install -Dm644 /dev/stdin $(SHARE)/bash-completion/completions/ksnoop
	./ksnoop completion zsh | install -Dm644 /dev/stdin $(SHARE)/zsh/site-functions/_ksnoop
	./ksnoop completion fish | install -Dm644 /dev/stdin $(SHARE)/fish/vendor_completions.d/ksnoop.fish

# What a release has, in dist: binaries, packages, bills of materials, checksums. It takes the commit that is
# checked out, not changes, and gives the same bytes wherever and whenever it is made.
dist:
	rm -rf dist
	$(GO) -C packaging run . -o ../dist

# Container images FROM scratch, in the folder image, for `docker load` and the like. The same commit gives the same bytes.
image:
	rm -rf image
	$(GO) -C packaging run . -image -o ../image

# The man pages are made of the help.
man:
	$(GO) test ./cmd/ksnoop -run TestManPages -man

# What the commands of the documentation print, here and in a guest, is written below them: read the diff.
docs: setup-guest
	$(GO) run ./internal/pages/render

# What reports contain of npm's packages, which is committed.
report-assets:
	$(call install,$(if $(shell command -v npm),,npm))
	internal/report/assets/build.sh

generate:
	$(GO) generate ./...

# $(call install,PACKAGES) installs those that are missing.
define install
@missing=; for p in $(1); do \
	dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null | grep -qx installed || missing="$$missing $$p"; \
done; \
if [ -n "$$missing" ]; then \
	$(SUDO) apt-get -q update && \
	DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get -q install -y --no-install-recommends $$missing; \
fi
endef

setup-guest:
	$(call install,$(GUEST_PACKAGES))
	@$(GUEST) -fetch >/dev/null

setup:
	$(call install,$(PACKAGES))
	@$(GUEST) -fetch >/dev/null

check: setup
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not as gofmt has it:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

# Generating again must change no file, whether committed yet or not.
SUMS = git ls-files -z --cached --others --exclude-standard | xargs -0 sha256sum 2>/dev/null
generated: setup
	@before=$$($(SUMS)); $(GO) generate ./... || exit 1; after=$$($(SUMS)); \
	if [ "$$before" != "$$after" ]; then \
		echo "not up to date, commit what \`make generate\` changed:"; git status --short; exit 1; \
	fi

# Of the commands of the documentation, those of README and tour; test-all runs all.
# Each test on 6.12 or on the newest kernel, in turn, and one test of each feature on others:
# CONTRIBUTING.md, "Which tests run where".
# KSNOOP_KERNELS chooses others, make test-all has all.
test: check generated
	$(TESTRUN) -unit -vetted -live

# Everything everywhere, and what works where is written down. Other programs read what
# ksnoop writes, too: those take much room.
TOOL_PACKAGES := chromium debootstrap rpm $(if $(shell command -v npm),,npm)
setup-tools:
	$(call install,$(TOOL_PACKAGES))

test-all: export KSNOOP_TOOLS = 1
test-all: setup-tools check generated
	$(TESTRUN) -unit -vetted -live -all -table docs/kernels.md
	$(GO) -C packaging vet ./...
	$(GO) -C packaging test -timeout 1h ./...
	$(MAKE) test-fleet
	$(call install,nodejs npm)
	KSNOOP_NPM=1 $(GO) test -run DuckDB ./internal/jsonlines
	$(MAKE) test-ways

test-unit: setup
	$(TESTRUN) -unit

test-live: setup-guest
	$(TESTRUN) -live

# Exports to a real OpenTelemetry Collector, which is built of its modules: 5 minutes the first time, and then cached.
# A minute of 50,000 calls a second and a dozen guests take 10 minutes more.
test-fleet: setup-guest
	$(call install,jq lld musl-tools)
	$(GO) -C fleet vet ./...
	$(GO) -C fleet test -timeout 30m ./...

# path() is held to what QEMU executes, in a guest of Linux 6.12.
test-ways: setup-guest
	KSNOOP_WAYS=1 $(GO) test -v -count 1 -timeout 2h -run WaysQEMU ./internal/record

# What needs the debug info of the guests' kernels, 317 MB each.
test-debuginfo: setup-guest
	$(TESTRUN) -live -debuginfo ./internal/livetest

demo: export KSNOOP_KERNELS = 6.12
demo: setup-guest
	@$(GUEST) -file internal/vm/demo.sh:/demo.sh sh /demo.sh

# The costs on 6.12 and on the newest kernel, in instructions.
bench: setup
	$(TESTRUN) -bench
	$(GUEST) -icount workload loop
	$(GO) test -run '^$$' -bench . ./btfprint ./expr ./codegen ./internal/record ./internal/kernel ./internal/debuginfo ./internal/jsonlines ./cmd/ksnoop

soak: setup
	KSNOOP_SOAK=1 $(TESTRUN) -unit -live -timeout 2h
	$(TESTRUN) -live -debuginfo ./internal/livetest
	$(MAKE) sweep

# Every function of a kernel traced: does the machine live on? Interrupted, it goes on
# where it was, by the files sweep-*.json.
sweep: setup
	$(GO) run ./internal/vm/sweep -kernel 6.12 -attach multi -state sweep-6.12-multi.json
	$(GO) run ./internal/vm/sweep -kernel newest -attach tracing_multi -state sweep-newest-tracing_multi.json
	$(GO) run ./internal/vm/sweep -kernel newest -attach fentry -state sweep-newest-fentry.json
	$(GO) run ./internal/vm/sweep -kernel 6.12 -attach fentry -state sweep-6.12-fentry.json

clean:
	rm -rf ksnoop dist
