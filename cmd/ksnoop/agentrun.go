// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/agent"
	"github.com/ksnoop/ksnoop/internal/agentconfig"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A service is a running agent.
type service struct {
	flags      *agentFlags
	stderr     io.Writer
	supervisor *agent.Supervisor
	reloads    agent.Reloads
	listen     agentconfig.Listen
	server     *server // nil if it listens nowhere
}

// A server answers at one address.
type server struct {
	*http.Server
	at net.Listener
}

// Close ends the answers; whoever is in the middle of a question sees it. Then the address is free: http.Server.Close alone leaves it
// open for a moment where Serve has not begun.
func (s *server) Close() {
	_ = s.Server.Close()
	_ = s.at.Close() // most often it is closed already
}

// run runs the agent until a signal ends it.
func (f *agentFlags) run(stderr io.Writer) (err error) {
	config, err := f.read()
	if err != nil {
		return err // and a signal ends the agent even if nobody reads why
	}
	signals := takeAgentSignals()
	signal.Stop(ignored)
	said := newUnblocked(stderr)
	defer func() {
		switch late := !said.end(); { // whoever flushes stderr would wait for the write that goes on
		case late && err != nil:
			os.Exit(statusOf(err))
		case late:
			os.Exit(0)
		}
	}()
	s := &service{flags: f, stderr: said}
	s.supervisor = agent.New(agent.Options{Start: s.start, Say: s.say})
	if err := s.answer(config.Listen); err != nil {
		signals.giveBack() // as above
		return err
	}
	s.apply(config)
	tellManager("READY=1")
	signals.reloadUntilEnd(s.reload)
	tellManager("STOPPING=1")
	s.supervisor.Close()
	if s.server != nil {
		s.server.Close()
	}
	return nil
}

// agentSignals are what tells an agent to end or to reload. Each kind has a channel of its own, since the runtime drops signals
// that a channel has no room for, and a reload takes as long as requests take to end. One of a kind is enough: a reload
// that has not begun reads the newest file.
type agentSignals struct{ ends, hangUps chan os.Signal }

func takeAgentSignals() agentSignals {
	s := agentSignals{make(chan os.Signal, 1), make(chan os.Signal, 1)}
	signal.Notify(s.ends, os.Interrupt, unix.SIGTERM)
	signal.Notify(s.hangUps, unix.SIGHUP)
	return s
}

// giveBack has the signals do what they do by default.
func (s agentSignals) giveBack() {
	signal.Stop(s.ends)
	signal.Stop(s.hangUps)
}

// reloadUntilEnd reloads at each hang-up, until a signal says to end. The end goes before a reload that is due as well.
func (s agentSignals) reloadUntilEnd(reload func()) {
	for {
		select {
		case <-s.ends:
			return
		case <-s.hangUps:
			if len(s.ends) > 0 {
				return
			}
			reload()
		}
	}
}

// start starts the process of a request.
func (s *service) start(r agent.Request) (agent.Process, error) {
	return agent.Command(append([]string{"trace", "--" + supervisedFlag}, r.Args...), func(line string) { s.say(r.Name, line) })
}

func (s *service) say(request, text string) {
	fmt.Fprintf(s.stderr, "ksnoop: %s: %s\n", request, terminal.Name(text))
}

// apply makes the requests of a configuration those that run, and says what has changed.
func (s *service) apply(config *agentconfig.Config) {
	var requests []agent.Request
	for _, r := range config.Requests {
		requests = append(requests, agent.Request{Name: r.Name, Args: r.Args})
	}
	c := s.supervisor.Apply(requests)
	var parts []string
	for _, p := range [...]struct {
		verb  string
		names []string
	}{{"begun", c.Added}, {"begun again", c.Changed}, {"ended", c.Removed}, {"going on", c.Same}} {
		if len(p.names) > 0 {
			parts = append(parts, p.verb+": "+strings.Join(p.names, " "))
		}
	}
	fmt.Fprintf(s.stderr, "ksnoop: %s: %s\n", terminal.Name(s.flags.file), strings.Join(parts, "; "))
}

// reload reads the configuration again. What is wrong in it changes nothing.
func (s *service) reload() {
	config, err := s.flags.read()
	if err == nil {
		err = s.answer(config.Listen)
	}
	if err != nil {
		s.reloads.Refused.Add(1)
		fmt.Fprintf(s.stderr, "ksnoop: not reloaded: %v\n", err)
		return
	}
	s.apply(config)
	s.reloads.Done.Add(1) // now what /metrics says of the requests is about the new ones
}

// answer has the agent answer at an address, and no longer at another. After an error it answers where it did.
func (s *service) answer(at agentconfig.Listen) error {
	if at == s.listen {
		return nil
	}
	var next *server
	if at != (agentconfig.Listen{}) {
		l, err := s.open(at)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		next = &server{agent.Server(agent.Handler(s.supervisor, version(), &s.reloads), log.New(s.stderr, "ksnoop: ", 0)), l}
		go func() {
			if err := next.Serve(agent.Listen(l, agent.MostConnections)); !errors.Is(err, http.ErrServerClosed) {
				fmt.Fprintf(s.stderr, "ksnoop: /metrics and /healthz are gone: %v\n", err)
			}
		}()
	}
	if s.server != nil {
		s.server.Close()
	}
	s.listen, s.server = at, next
	return nil
}

// open opens an address. It may be one that the agent itself is in the way of, as 0.0.0.0 of a port that is open at
// 127.0.0.1: then that is closed first, and opened again if it was of no use.
func (s *service) open(at agentconfig.Listen) (net.Listener, error) {
	l, err := listen(at)
	if s.server == nil || at.Network == "unix" || !errors.Is(err, unix.EADDRINUSE) {
		return l, err
	}
	s.server.Close()
	if l, err = listen(at); err == nil {
		return l, nil
	}
	was := s.listen
	s.listen, s.server = agentconfig.Listen{}, nil
	return nil, errors.Join(err, s.answer(was))
}

// listen opens an address. A socket that an agent has left, which nobody answers at, is replaced.
func listen(at agentconfig.Listen) (net.Listener, error) {
	if at.Network != "unix" {
		return net.Listen(at.Network, at.Address)
	}
	if info, err := os.Lstat(at.Address); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("unix:%s: a file is there that is no socket", terminal.Name(at.Address))
		}
		if c, err := net.Dial("unix", at.Address); err == nil {
			_ = c.Close()
		} else if errors.Is(err, unix.ECONNREFUSED) {
			_ = os.Remove(at.Address) // Listen says what is wrong
		}
	}
	return listenUnix(at.Address)
}

// socketMode is that of the agent's socket.
const socketMode = 0o660

// listenUnix makes a socket with socketMode. Until it has that, it has no more than the umask leaves of it.
func listenUnix(path string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlled := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), socketMode) }) // which is what bind(2) goes by
		return errors.Join(controlled, err)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return withMode(l.(*net.UnixListener), path)
}

// A unixListener removes its socket when it is closed, and no other file: a net.UnixListener removes what has the path by
// then, which may be the socket of another agent.
type unixListener struct {
	*net.UnixListener
	path   string
	socket fileID // zero if it is not known
	once   sync.Once
}

// A fileID names a file as long as somebody has it open, as a listener has its socket.
type fileID struct{ dev, ino uint64 }

// Close may be called again, when the ID may be that of another socket.
func (l *unixListener) Close() error {
	l.once.Do(func() {
		var is unix.Stat_t
		if unix.Lstat(l.path, &is) == nil && idOf(&is) == l.socket {
			_ = unix.Unlink(l.path) // what is left, the next agent replaces
		}
	})
	return l.UnixListener.Close()
}

func idOf(is *unix.Stat_t) fileID { return fileID{is.Dev, is.Ino} }

// withMode gives the listener's socket its mode, or closes it. What then has the path stays unless it is known to be the
// socket: it may be the file of somebody else.
func withMode(l *net.UnixListener, path string) (net.Listener, error) {
	l.SetUnlinkOnClose(false)
	socket, err := openToGroup(path)
	own := &unixListener{UnixListener: l, path: path, socket: socket}
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return own, nil
}

// openToGroup gives a socket of ours its mode, and returns which file it is, if it is known to be ours. Whoever owns the
// folder may have put a link to another file in its place.
func openToGroup(path string) (fileID, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fileID{}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return fileID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if is.Mode&unix.S_IFMT != unix.S_IFSOCK || int(is.Uid) != os.Geteuid() || is.Nlink != 1 {
		return fileID{}, fmt.Errorf("%s: another file has taken the place of the socket", path)
	}
	err = os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), socketMode)
	switch {
	case err == nil:
		return idOf(&is), nil
	case errors.Is(err, fs.ErrNotExist): // fd is open, so it is proc that is not there
		err = errNoProc
	default:
		err = errors.Unwrap(err) // which does not name the path
	}
	return idOf(&is), &fs.PathError{Op: "chmod", Path: path, Err: err}
}

// errNoProc is why a socket does not get its mode.
var errNoProc = errors.New("a socket gets its mode through /proc/self/fd: mount proc at /proc")

// tellManager tells systemd what the agent does, if that has started it and wants to know (sd_notify(3)).
func tellManager(state string) {
	at := os.Getenv("NOTIFY_SOCKET")
	if at == "" {
		return
	}
	c, err := net.Dial("unixgram", at) // an @ stands for the NUL of an abstract name
	if err != nil {
		return // it will say that it was not told
	}
	defer c.Close()
	_, _ = c.Write([]byte(state))
}
