// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ksnoop/ksnoop/internal/container"
)

const (
	app   = "81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f"
	setup = "40af7cdcbe507acad47a5a62025743ad3ddc6ab93b77b21363aa1c1d641047c9"
	debug = "14ae50f1d3ada102aec3ab00168fdafb2dc0986d79ca9e8d5b75581fa89e9fea"
	uid   = "068e8fa0-9213-11e7-a01f-507b9d4141fa"
	hash  = "d76e26fba3bf2bfd215eb29011d55250"
)

// answer is a PodList as the kubelet writes it: kubernetes/kubernetes, pkg/kubelet/server/server.go (encodePods), with the
// fields of staging/src/k8s.io/api/core/v1/types.go. The second pod is one from a file (pkg/kubelet/config/common.go).
const answer = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[
{"metadata":{"name":"web-0","generateName":"web-","namespace":"prod","uid":"` + uid + `","resourceVersion":"731","creationTimestamp":"2026-11-23T06:00:00Z","labels":{"app":"web"},
"annotations":{"kubernetes.io/config.seen":"2026-11-23T06:00:01.5Z","kubernetes.io/config.source":"api"}},
"spec":{"containers":[{"name":"app","image":"registry/web:1","resources":{}}],"nodeName":"node1"},
"status":{"phase":"Running","qosClass":"Burstable",
"initContainerStatuses":[{"name":"setup","state":{"terminated":{"exitCode":0}},"containerID":"containerd://` + setup + `","image":"registry/web:1"}],
"ephemeralContainerStatuses":[{"name":"debugger","containerID":"cri-o://` + debug + `"}],
"containerStatuses":[{"name":"app","state":{"running":{"startedAt":"2026-11-23T06:00:02Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"registry/web:1","imageID":"x","containerID":"containerd://` + app + `","started":true}]}},
{"metadata":{"name":"etcd-node1","namespace":"kube-system","uid":"` + hash + `","annotations":{"kubernetes.io/config.hash":"` + hash + `","kubernetes.io/config.source":"file"}},"spec":{},"status":{"phase":"Pending"}}
]}`

// A fake is a kubelet that answers with what a function writes.
func fake(t *testing.T, secure bool, handler http.HandlerFunc) (*httptest.Server, fstest.MapFS) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = nil
	root := fstest.MapFS{}
	if secure {
		s.StartTLS()
		root[certificates[0]] = &fstest.MapFile{Data: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
		root[tokenFile] = &fstest.MapFile{Data: []byte("secret\n")}
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s, root
}

// asked returns a client that has asked, and what it has said.
func asked(t *testing.T, url string, root fstest.MapFS) (*Client, *[]string) {
	t.Helper()
	said := &[]string{}
	c, err := New(Options{URL: url, Root: root, Say: func(text string) { *said = append(*said, text) }})
	if err != nil {
		t.Fatal(err)
	}
	c.http.Timeout = time.Minute // a busy machine takes longer than mostWait for an answer of 32 MiB
	c.Ask(t.Context())
	return c, said
}

// TestNames: what containers and pods are called, by both ports of a kubelet.
func TestNames(t *testing.T) {
	for _, secure := range []bool{true, false} {
		var authorization, path atomic.Value
		s, root := fake(t, secure, func(w http.ResponseWriter, r *http.Request) {
			authorization.Store(r.Header.Get("Authorization"))
			path.Store(r.URL.Path)
			_, _ = io.WriteString(w, answer)
		})
		c, said := asked(t, s.URL, root)
		for _, of := range []struct {
			id   container.ID
			want container.Names
		}{
			{container.ID{Container: app, Pod: uid}, container.Names{Container: "app", Pod: "web-0", Namespace: "prod"}},
			{container.ID{Container: setup}, container.Names{Container: "setup", Pod: "web-0", Namespace: "prod"}},
			{container.ID{Container: debug}, container.Names{Container: "debugger", Pod: "web-0", Namespace: "prod"}},
			{container.ID{Container: strings.Repeat("0", 64), Pod: uid}, container.Names{Pod: "web-0", Namespace: "prod"}}, // that holds the pod
			{container.ID{Pod: hash}, container.Names{Pod: "etcd-node1", Namespace: "kube-system"}},
			{container.ID{Container: strings.Repeat("0", 64)}, container.Names{}},
		} {
			if got := c.Names(of.id); got != of.want {
				t.Errorf("%+v: %+v, want %+v", of.id, got, of.want)
			}
		}
		want := map[bool]string{true: "Bearer secret", false: ""}[secure]
		if authorization.Load() != want || path.Load() != "/pods" || len(*said) > 0 {
			t.Errorf("Authorization %q, path %q, %q", authorization.Load(), path.Load(), *said)
		}
	}
}

// TestStranger: a program that listens where the kubelet should gets no token.
func TestStranger(t *testing.T) {
	requests := 0
	s, root := fake(t, true, func(http.ResponseWriter, *http.Request) { requests++ })
	delete(root, certificates[0])
	c, said := asked(t, s.URL, root)
	if len(*said) != 1 || !strings.Contains((*said)[0], "it does not show the certificate of /var/lib/kubelet/pki/kubelet.crt") || requests > 0 || c.Names(container.ID{Container: app}) != (container.Names{}) {
		t.Errorf("%d requests: %q", requests, *said)
	}
	// One that the cluster has signed is taken for the host that it names.
	root[authority] = &fstest.MapFile{Data: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	if _, said := asked(t, s.URL, root); len(*said) != 1 || !strings.Contains((*said)[0], "does not answer with a list of pods") { // it is for 127.0.0.1
		t.Errorf("%q", *said)
	}
	if _, said := asked(t, strings.Replace(s.URL, "127.0.0.1", "localhost", 1), root); len(*said) != 1 || !strings.Contains((*said)[0], "localhost") { // and not for that
		t.Errorf("%q", *said)
	}
}

// TestAnswers: what is no list of pods is refused, and what hostile ones have is bounded.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string // what is said; "": nothing
	}{
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, " answers 403: the token of a service account that may get nodes/proxy is expected in /var/run/secrets/"},
		"missing":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, " answers 404"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, " answers 302"},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, " does not answer with a list of pods"},
		"other":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"kind":"Status"}`) }, " does not answer with a list of pods"},
		"types": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"kind":"PodList","items":{"a":1}}`)
		}, " does not answer with a list of pods"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer[:len(answer)/2]) },
			" does not answer with a list of pods"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"kind":"PodList","items":[{"metadata":{"name":"`)
			for block := strings.Repeat("x", 1<<20); ; {
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
		}, " answers more than 32 MiB"},
		"hostile names": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"kind":"PodList","items":[{"metadata":{"name":"\u001b]0;x","namespace":"`+strings.Repeat("x", 300)+`","uid":"`+uid+`"},"status":{"containerStatuses":[{"name":"a b","containerID":"containerd://`+app+`"}]}}]}`)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, root := fake(t, true, c.handler)
			client, said := asked(t, s.URL, root)
			if got := strings.Join(*said, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) || strings.Contains(got, "secret") && !strings.Contains(got, "/secrets/") {
				t.Errorf("%q, want %q", got, c.want)
			}
			client.Ask(t.Context())
			if len(*said) > 1 {
				t.Errorf("said twice: %q", *said)
			}
			if got := client.Names(container.ID{Container: app, Pod: uid}); got != (container.Names{}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestSlow: who asks for a name does not wait; a kubelet that never answers is given up, and is not asked again at once.
func TestSlow(t *testing.T) {
	var requests atomic.Int64
	release := make(chan struct{})
	s, root := fake(t, true, func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
		<-release
	})
	defer close(release)
	said := make(chan string, 10)
	c, err := New(Options{URL: s.URL, Root: root, Say: func(text string) { said <- text }})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for range 1000 {
		c.Names(container.ID{Container: app})
	}
	if took := time.Since(begin); took > mostWait/2 {
		t.Errorf("names took %v", took)
	}
	select {
	case text := <-said:
		if !strings.Contains(text, "Client.Timeout exceeded") {
			t.Error(text)
		}
	case <-time.After(10 * mostWait):
		t.Fatal("it waits for ever")
	}
	for range 1000 {
		c.Names(container.ID{Container: app})
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestLater: a pod that was not there is asked for, and is known when the answer has come; what was known stays if the
// kubelet ends.
func TestLater(t *testing.T) {
	now := atomic.Pointer[string]{}
	text := `{"kind":"PodList","items":[]}`
	now.Store(&text)
	s, root := fake(t, false, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, *now.Load()) })
	c, said := asked(t, s.URL, root)
	id := container.ID{Container: app}
	if got := c.Names(id); got != (container.Names{}) {
		t.Fatalf("%+v", got)
	}
	later := answer
	now.Store(&later)
	c.mu.Lock()
	c.asked = time.Time{} // long ago
	c.mu.Unlock()
	c.Names(id)
	for end := time.Now().Add(30 * time.Second); c.Names(id).Container != "app"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the name does not come")
		}
	}
	s.Close()
	c.Ask(t.Context())
	if c.Names(id).Container != "app" || len(*said) != 1 {
		t.Errorf("%+v, %q", c.Names(id), *said)
	}
}

func TestNew(t *testing.T) {
	for url, want := range map[string]string{
		"https://127.0.0.1:10250": "", Default: "", "http://[::1]:10255/pods": "", "http://localhost:10255": "", "https://node1:10250/pods": "",
		"http://node1:10255/pods": "http:// would trust whoever answers for node1", "127.0.0.1:10250": "the URL ", "ftp://127.0.0.1": "the URL has the form ", "https://u:secret@h/": "the URL has the form ",
		"https://h/pods?x=secret": "the URL has the form ", "": "the URL has the form ", "http://sec ret": "the URL cannot be read",
	} {
		_, err := New(Options{URL: url})
		if got := fmt.Sprint(err); (want == "") != (err == nil) || want != "" && !strings.HasPrefix(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
	}
}

// TestManyPods: what takes a few bytes of an answer does not take many of memory.
func TestManyPods(t *testing.T) {
	const many = 4 << 20
	some := strings.TrimSuffix(strings.Repeat("{},", many), ",")
	for name, text := range map[string]string{
		"pods":       `{"kind":"PodList","items":[` + some + `]}`,
		"containers": `{"kind":"PodList","items":[{"status":{"containerStatuses":[` + some + `]}}]}`,
	} {
		var list podList
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		err := json.Unmarshal([]byte(text), &list)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err != nil || used > 10*uint64(len(text)) {
			t.Errorf("%s: %v, %d bytes for %d", name, err, used, len(text))
		}
	}
	var none podList
	if err := json.Unmarshal([]byte(`{"kind":"PodList","items":null}`), &none); err != nil || none.Kind != "PodList" || len(none.Items) != 0 {
		t.Errorf("no pods: %+v, %v", none, err)
	}
	if err := json.Unmarshal([]byte(`{"kind":"PodList","items":{}}`), &none); err == nil {
		t.Error("pods that are no list")
	}
}

// FuzzNames: whatever a kubelet answers, a name has the characters of names.
func FuzzNames(f *testing.F) {
	f.Add([]byte(answer))
	f.Add([]byte(`{"kind":"PodList","items":[{"metadata":{"uid":"x","name":"\u0000"}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var list podList
		if json.Unmarshal(text, &list) != nil {
			return
		}
		containers, pods := list.names()
		for _, names := range []map[string]container.Names{containers, pods} {
			for id, n := range names {
				if n.Clean() != n || n == (container.Names{}) || id == "" {
					t.Errorf("%q: %+v", id, n)
				}
			}
		}
	})
}
