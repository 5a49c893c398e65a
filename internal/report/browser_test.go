// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A browser is a Chromium without a screen that shows one page. It is told what to do by the DevTools
// protocol, over pipes.
type browser struct {
	t       *testing.T
	in      io.Writer
	out     io.Reader
	rest    []byte
	id      int
	session string
	events  []message // that came in between
}

// A message of the protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// newBrowser starts a browser of a size. The test ends it.
func newBrowser(t *testing.T, width, height int) *browser {
	t.Helper()
	if os.Getenv("KSNOOP_TOOLS") == "" {
		t.Skip("KSNOOP_TOOLS is not set: this takes chromium, which `make test-all` installs")
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// A small folder for Chromium's profile, which is still written while it ends.
	profile, err := os.MkdirTemp("", "ksnoop-chromium")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe",
		fmt.Sprintf("--window-size=%d,%d", width, height), "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, in: in, out: out}
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		ended := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		ended.Stop()
		in.Close()
		out.Close()
		_ = os.RemoveAll(profile)
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	return b
}

func (b *browser) send(session, method string, params any) {
	b.id++
	m := map[string]any{"id": b.id, "method": method}
	if session != "" {
		m["sessionId"] = session
	}
	if params != nil {
		m["params"] = params
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Error(err)
	}
}

// next returns the next message.
func (b *browser) next() (m message) {
	b.t.Helper()
	buf := make([]byte, 1<<16)
	for {
		if text, rest, ok := bytes.Cut(b.rest, []byte{0}); ok {
			b.rest = rest
			if err := json.Unmarshal(text, &m); err != nil {
				b.t.Fatal(err)
			}
			return m
		}
		n, err := b.out.Read(buf)
		if err != nil {
			b.t.Fatal(err)
		}
		b.rest = append(b.rest, buf[:n]...)
	}
}

// call does what a method does, and waits for its result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.send(b.session, method, params)
	for id := b.id; ; {
		m := b.next()
		if m.ID != id {
			b.events = append(b.events, m)
			continue
		}
		var err error
		if m.Error != nil {
			err = errors.New(m.Error.Message)
		} else if result != nil {
			err = json.Unmarshal(m.Result, result)
		}
		if err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
		return
	}
}

// eval returns the value of an expression in the page.
func eval[T any](b *browser, expression string) (value T) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Exception struct{ Description string }
		}
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	if len(r.Result.Value) > 0 {
		if err := json.Unmarshal(r.Result.Value, &value); err != nil {
			b.t.Fatalf("%s: %v: %s", expression, err, r.Result.Value)
		}
	}
	return value
}

// until waits until an expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); !eval[bool](b, "!!("+expression+")"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("not within a minute: %s", expression)
		}
	}
}

// file returns the name of a file with a page.
func (b *browser) file(page []byte) string {
	b.t.Helper()
	name := filepath.Join(b.t.TempDir(), "report.html")
	if err := os.WriteFile(name, page, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return name
}

// open opens a page of a run and waits until all of it was read.
func (b *browser) open(page []byte) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": "file://" + b.file(page)}, nil)
	b.until("document.documentElement?.dataset.loaded || document.querySelector('.notice.bad')")
}

// click clicks the middle of an element.
func (b *browser) click(selector string) {
	b.t.Helper()
	at := eval[[]float64](b, fmt.Sprintf("(() => { const r = document.querySelector(%q).getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()", selector))
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}, nil)
	}
}

// drag drags the mouse between two points.
func (b *browser) drag(x, y, toX, toY float64) {
	b.t.Helper()
	mouse := func(kind string, x, y float64) {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}, nil)
	}
	mouse("mousePressed", x, y)
	mouse("mouseMoved", (x+toX)/2, (y+toY)/2)
	mouse("mouseMoved", toX, toY)
	mouse("mouseReleased", toX, toY)
}

// press presses a key, such as "j", "Enter" or "ArrowDown".
func (b *browser) press(key string) {
	b.t.Helper()
	params := map[string]any{"type": "keyDown", "key": key}
	if len(key) == 1 {
		params["text"] = key
	}
	if key == "Enter" {
		params["text"], params["windowsVirtualKeyCode"] = "\r", 13
	}
	b.call("Input.dispatchKeyEvent", params, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
}

// filter types a filter in place of the one before, and waits until it holds.
func (b *browser) filter(text string) {
	b.t.Helper()
	eval[any](b, "delete document.documentElement.dataset.filter; document.getElementById('filter').focus(); document.getElementById('filter').select()")
	if text == "" {
		b.press("Escape")
	} else {
		b.call("Input.insertText", map[string]any{"text": text}, nil)
	}
	b.until("document.documentElement.dataset.filter")
}

// screenshot writes a picture of the page if KSNOOP_SCREENSHOT names a folder.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("KSNOOP_SCREENSHOT")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", nil, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// complaints returns what the browser has said of the page: errors of scripts, and what its policy has refused.
func (b *browser) complaints() (all []string) {
	b.t.Helper()
	eval[any](b, "1")
	for _, m := range b.events {
		switch m.Method {
		case "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening":
			all = append(all, m.Method+" "+string(m.Params))
		case "Network.requestWillBeSent":
			if !strings.Contains(string(m.Params), `"url":"file://`) {
				all = append(all, m.Method+" "+string(m.Params))
			}
		}
	}
	return all
}
