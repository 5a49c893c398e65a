// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// A Listen is where the agent answers. The zero Listen is nowhere.
type Listen struct{ Network, Address string } // as of net.Listen

// parseListen reads an address: of a socket, or one that other machines do not reach unless remote says that they may.
func parseListen(text string, remote bool) (Listen, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		const longest = 107 // of sun_path, with a NUL behind it
		if !filepath.IsAbs(path) || len(path) > longest {
			return Listen{}, fmt.Errorf("the path of a socket begins with / and has up to %d bytes", longest)
		}
		return Listen{"unix", path}, nil
	}
	host, port, err := net.SplitHostPort(text)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n == 0 {
		return Listen{}, fmt.Errorf("%s is no address; write 127.0.0.1:PORT, or unix:/PATH", strconv.Quote(text))
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) && !remote {
		return Listen{}, fmt.Errorf("%s can be reached from other machines, and whoever reaches it sees what is traced; write 127.0.0.1:%d, or add allow-remote: true", strconv.Quote(text), n)
	}
	return Listen{"tcp", text}, nil
}
