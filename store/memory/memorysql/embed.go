package memorysql

import (
	"context"
	"encoding/json"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
)

const (
	// A fact has no embedding of a model if its own model sorts before or after that model.
	sqlPending       = `SELECT f.owner, f.agent, f.namespace, f.id, f.version, f.content FROM {s}.memory_facts f WHERE f.replaced_at + 0 = 0`
	sqlPendingBefore = sqlPending + ` AND f.model < $1::text AND f.expires_at > $2::bigint ORDER BY f.model LIMIT $3::bigint`
	sqlPendingAfter  = sqlPending + ` AND f.model > $1::text AND f.expires_at > $2::bigint ORDER BY f.model LIMIT $3::bigint`
	sqlSetEmbedding  = `UPDATE {s}.memory_facts AS f SET model = $6::text, embedding = $7::bytea WHERE` + whereFact + ` AND f.version = $5::bigint AND f.replaced_at <= 0`
)

func encodeEntities(names []string) string {
	if len(names) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(names) // strings
	return string(text)
}

func decodeEntities(text string) (names []string) {
	if text != "[]" {
		_ = json.Unmarshal([]byte(text), &names) // written by encodeEntities
	}
	return names
}

// EmbedPending implements memory.Reembedder. The content of a version never changes, so that an
// embedding which was computed meanwhile fits it.
func (l *LongTerm) EmbedPending(ctx context.Context, limit int) (int, error) {
	first, last, err := l.embeddings.Models()
	if err != nil {
		return 0, err
	}
	pending, err := l.pending(ctx, first, last, limit)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	texts := make([]string, len(pending))
	for i := range pending {
		texts[i] = pending[i].Content
	}
	embeddings, err := l.embeddings.Contents(ctx, texts)
	if err != nil {
		return 0, err
	}
	err = l.db.Write(ctx, func(tx sqlkit.Tx) error {
		for i, m := range pending {
			_, err := tx.Exec(sqlSetEmbedding, factArgs(m.Scope, m.ID, m.Version, embeddings[i].Model, memorydriver.EncodeVector(embeddings[i].Vector))...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(pending), nil
}

// pending returns up to limit versions that a search may find, with a model before first or after last.
func (l *LongTerm) pending(ctx context.Context, first, last string, limit int) (all []memory.Memory, err error) {
	now := l.now().UnixMilli()
	err = l.db.Read(ctx, func(q sqlkit.Querier) error {
		all = nil
		for _, part := range [][2]string{{sqlPendingBefore, first}, {sqlPendingAfter, last}} {
			err := q.Query(part[0], func(r sqlkit.Row) error {
				all = append(all, memory.Memory{
					Scope: memory.Scope{Owner: r.Text(0), Agent: r.Text(1), Namespace: r.Text(2)}, ID: r.Text(3), Version: r.Int(4), Content: r.Text(5),
				})
				return nil
			}, part[1], now, limit-len(all))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}
