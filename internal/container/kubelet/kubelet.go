// SPDX-License-Identifier: Apache-2.0

// Package kubelet asks the kubelet of a machine what its pods and containers are called. What it answers is not
// trusted: it is bounded, and names have the characters of names only.
package kubelet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/internal/container"
)

// Limits on answers, and on how often there is a request.
const (
	mostAnswer = 32 << 20 // 500 pods are 5 MB
	mostWait   = 3 * time.Second
	leastPause = 5 * time.Second
)

// Default is where the kubelet listens unless it is configured otherwise.
const Default = "https://127.0.0.1:10250/pods"

// Options say where a kubelet is, and what for.
type Options struct {
	URL  string            // http:// is for the same machine only: nobody knows who answers
	Root fs.FS             // the root directory: it has the token, and the kubelet's certificate
	Say  func(text string) // is told what keeps names from being known, each time that something new does
}

// A Client knows what the pods of a machine are called. It is safe for concurrent use.
type Client struct {
	url    string
	secure bool
	root   fs.FS
	http   http.Client
	say    func(string)

	mu         sync.Mutex
	containers map[string]container.Names // by ID
	pods       map[string]container.Names // by UID
	asked      time.Time                  // last
	asking     bool
	failed     string // why the last request was in vain
}

// New returns a Client. It asks nothing.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil { // which would show it, with a password that it may have
		return nil, errors.New("the URL cannot be read: it has the form " + Default)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("the URL has the form " + Default + ", or http://127.0.0.1:10255/pods where the kubelet has a port that is read-only")
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("http:// would trust whoever answers for %s: it is for 127.0.0.1; write https://", u.Hostname())
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/pods"
	}
	c := &Client{url: u.String(), secure: u.Scheme == "https", root: o.Root, say: o.Say}
	c.http = http.Client{Timeout: mostWait,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for nobody else
		Transport: &http.Transport{ // no proxy, for the same reason
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: verifier{o.Root, u.Hostname()}.verify}, // which verifies
			MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute, MaxIdleConns: 1}}
	return c, nil
}

// Names returns what is known of a container or a pod. If nothing is, it has the kubelet asked, unless that was done a
// moment ago, and does not wait for the answer.
func (c *Client) Names(id container.ID) container.Names {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, known := c.containers[id.Container]
	if !known {
		n, known = c.pods[id.Pod] // a container that holds the pod together is not listed
	}
	if !known && !c.asking && time.Since(c.asked) >= leastPause {
		c.asking = true
		go c.ask(context.Background())
	}
	return n
}

// Ask asks, and waits for the answer.
func (c *Client) Ask(ctx context.Context) {
	c.mu.Lock()
	c.asking = true
	c.mu.Unlock()
	c.ask(ctx)
}

func (c *Client) ask(ctx context.Context) {
	list, err := c.fetch(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking, c.asked = false, time.Now()
	if err != nil {
		if text := err.Error(); text != c.failed {
			c.failed = text
			c.say(text)
		}
		return // what was known still holds
	}
	c.failed = ""
	c.containers, c.pods = list.names()
}

// fetch returns the pods that the kubelet has.
func (c *Client) fetch(ctx context.Context) (*podList, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if token := c.token(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("%s answers %d: the token of a service account that may get nodes/proxy is expected in /%s", c.url, resp.StatusCode, tokenFile)
	default:
		return nil, fmt.Errorf("%s answers %d", c.url, resp.StatusCode)
	}
	body := &io.LimitedReader{R: resp.Body, N: mostAnswer}
	list := &podList{}
	if err := json.NewDecoder(body).Decode(list); err != nil || list.Kind != "PodList" {
		switch {
		case body.N == 0:
			return nil, fmt.Errorf("%s answers more than %d MiB", c.url, mostAnswer>>20)
		case errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.Canceled):
			return nil, err
		}
		return nil, fmt.Errorf("%s does not answer with a list of pods", c.url)
	}
	return list, nil
}

// tokenFile has the token of the pod's service account, if ksnoop runs in a pod.
const tokenFile = "var/run/secrets/kubernetes.io/serviceaccount/token"

// token returns the token for the kubelet; "" if there is none. It changes from time to time, and is sent to nobody but
// a kubelet that has shown who it is.
func (c *Client) token() string {
	if !c.secure {
		return ""
	}
	token := strings.TrimSpace(string(read(c.root, tokenFile)))
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return token
}
