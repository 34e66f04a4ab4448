package execagent

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
)

// loadFiles inserts the content of stored files into a page of the history. It inserts all files
// of the newest message. It inserts a file of another message if the content of the page is then
// at most pageBytes. A file that cannot be read remains a reference.
func loadFiles(ctx context.Context, t *holdfast.Turn, messages []a2a.Message) {
	size := sizeOf(messages)
	for i, m := range slices.Backward(messages) {
		for j, p := range m.Parts {
			file, ok := p.(a2a.FilePart)
			if !ok {
				continue
			}
			ref, ok := fileref.Of(file.File)
			if !ok || i < len(messages)-1 && size+int(ref.Size) > pageBytes {
				continue
			}
			data, _, err := t.ReadFile(ctx, file.File)
			if err != nil {
				continue
			}
			name, kind := file.File.Info()
			file.File = a2a.FileWithBytes{Name: name, MimeType: kind, Bytes: data}
			messages[i].Parts = slices.Clone(messages[i].Parts)
			messages[i].Parts[j] = file
			size += len(data)
		}
	}
}
