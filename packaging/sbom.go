// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// billOf returns the bill of materials of a binary in CycloneDX's JSON: the modules that the go command wrote
// into it, which are what `go version -m` prints, and Go's own library.
func billOf(src source, b build) ([]byte, error) {
	sum := sha256.Sum256(b.program)
	main := moduleComponent(b.info.Main.Path, b.info.Main.Version, "")
	main.Type = cdx.ComponentTypeApplication
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sum)}}
	main.Licenses = &cdx.Licenses{{Expression: "Apache-2.0 AND (BSD-2-Clause OR GPL-2.0-only)"}}
	main.Properties = &[]cdx.Property{{Name: "commit", Value: src.commit}, {Name: "GOARCH", Value: b.arch}}
	components := []cdx.Component{moduleComponent("std", strings.TrimPrefix(b.info.GoVersion, "go"), "")}
	for _, dep := range b.info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		components = append(components, moduleComponent(dep.Path, dep.Version, dep.Sum))
	}
	var needs []string
	for _, c := range components {
		needs = append(needs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = serial(sum)
	bom.Metadata = &cdx.Metadata{Timestamp: src.time.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return out.Bytes(), err
}

// serial makes a UUID (version 8, RFC 9562) of a checksum: the same binary has the same bill.
func serial(sum [sha256.Size]byte) string {
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// moduleComponent names a module by its package URL, which tools that look for vulnerabilities search by.
func moduleComponent(path, version, sum string) cdx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s?type=module", path, version)
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url, Scope: cdx.ScopeRequired}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: sum}}
	}
	return c
}
