package lint

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	markdownLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	markdownHeading = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
	markdownFence   = regexp.MustCompile("(?ms)^```.*?^```")
)

// anchor is what GitHub calls a heading in links.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// checkLinks names the links of pages to files and sections that are not there.
func checkLinks(fsys fs.FS, pages []string) (bad []string) {
	for _, page := range pages {
		text, err := fs.ReadFile(fsys, page)
		if err != nil {
			bad = append(bad, err.Error())
			continue
		}
		for _, m := range markdownLink.FindAllStringSubmatch(markdownFence.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, section, hasSection := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = path.Join(path.Dir(page), file)
			}
			there, err := fs.ReadFile(fsys, target)
			if err != nil {
				if info, err := fs.Stat(fsys, target); err != nil || !info.IsDir() {
					bad = append(bad, page+": no file for "+m[1])
				}
				continue
			}
			if !hasSection {
				continue
			}
			found := false
			for _, h := range markdownHeading.FindAllStringSubmatch(markdownFence.ReplaceAllString(string(there), ""), -1) {
				found = found || anchor(strings.ReplaceAll(h[1], "`", "")) == section
			}
			if !found {
				bad = append(bad, page+": no section for "+m[1])
			}
		}
	}
	return bad
}

func TestLinksOfPages(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	pages, err := fs.Glob(root, "docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, v := range checkLinks(root, append(pages, "README.md", "CONTRIBUTING.md", "CHANGELOG.md")) {
		t.Error(v)
	}
}

func TestLinksCatchViolations(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"docs/a.md": {Data: []byte("# One `two`, three\n[x](b.md) [y](#one-two-three) [z](../README.md#top) [w](https://x/y) [v](../docs)\n```\n[no](code.md)\n```\n" +
			"[1](c.md) [2](b.md#none) [3](#four)")},
		"docs/b.md": {Data: []byte("## Some\n")},
		"README.md": {Data: []byte("# Top\n")},
	}
	got := strings.Join(checkLinks(fsys, []string{"docs/a.md"}), "\n")
	if want := "docs/a.md: no file for c.md\ndocs/a.md: no section for b.md#none\ndocs/a.md: no section for #four"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
