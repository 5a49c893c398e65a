// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	imagetar "github.com/google/go-containerregistry/pkg/v1/tarball"
)

// imaged returns a container image, FROM scratch: the binary and the terms of what is in it. It is an archive as
// "docker load", "podman load" and "ctr image import" read it. Its container runs the agent.
func imaged(src source, b build, rights []byte) (file, error) {
	content, err := archived(src.time, []file{{"usr/", nil, 0o755}, {"usr/bin/", nil, 0o755}, {"usr/bin/ksnoop", b.program, 0o755},
		{"usr/share/", nil, 0o755}, {"usr/share/doc/", nil, 0o755}, {"usr/" + docDir, nil, 0o755}, {"usr/" + docDir + "copyright", rights, 0o644}})
	if err != nil {
		return file{}, err
	}
	layer, err := imagetar.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return file{}, err
	}
	made := v1.Time{Time: src.time}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: b.arch, OS: "linux", Created: made, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/usr/bin/ksnoop"}, Cmd: []string{"agent", "--config", "/etc/ksnoop/agent.yaml"}, StopSignal: "SIGTERM",
			Labels: map[string]string{"org.opencontainers.image.title": "ksnoop", "org.opencontainers.image.version": b.version,
				"org.opencontainers.image.revision": src.commit, "org.opencontainers.image.licenses": licenceTerms}},
	})
	if err != nil {
		return file{}, err
	}
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: made, CreatedBy: "packaging of ksnoop"}}); err != nil {
		return file{}, err
	}
	tag, err := name.NewTag("ksnoop:" + strings.ReplaceAll(b.version, "+", "-")) // a tag has no +
	if err != nil {
		return file{}, err
	}
	var out bytes.Buffer
	err = imagetar.Write(tag, image, &out)
	return file{path: "ksnoop_" + b.version + "_linux_" + b.arch + ".image.tar", data: out.Bytes(), mode: 0o644}, err
}
