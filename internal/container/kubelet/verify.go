// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
)

// certificates are those that the kubelet shows: it makes the first one itself, or gets the second one from the
// cluster. They are seldom for 127.0.0.1, so that name and authority tell nothing; but only root can write there.
var certificates = [...]string{"var/lib/kubelet/pki/kubelet.crt", "var/lib/kubelet/pki/kubelet-server-current.pem"}

// authority has signed the certificates of the cluster.
const authority = "var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// A verifier finds out whether it is the kubelet that answers.
type verifier struct {
	root fs.FS
	host string
}

// verify accepts the certificate that the kubelet of this machine has, and one for the host that is signed by the
// cluster or by whom the system trusts.
func (v verifier) verify(state tls.ConnectionState) error {
	shown := state.PeerCertificates
	for _, name := range certificates {
		for block, rest := pem.Decode(read(v.root, name)); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == "CERTIFICATE" && bytes.Equal(block.Bytes, shown[0].Raw) {
				return nil
			}
		}
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(read(v.root, authority))
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	if _, err := shown[0].Verify(x509.VerifyOptions{DNSName: v.host, Roots: roots, Intermediates: between}); err != nil {
		return errors.Join(errors.New("it does not show the certificate of /"+certificates[0]+" or /"+certificates[1]+", and another one is refused"), err)
	}
	return nil
}

// read returns a small file; nil if there is none.
func read(root fs.FS, name string) []byte {
	f, err := root.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil
	}
	return text
}
