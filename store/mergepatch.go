package store

import "maps"

// MergePatch applies a JSON merge patch (RFC 7396) to target and returns the result. A nil
// member of patch removes the member of target, objects merge recursively, and any other
// value replaces. MergePatch does not modify its arguments; the result may share values
// with both. It returns target itself if patch is empty, and nil if no member is left.
func MergePatch(target, patch map[string]any) map[string]any {
	if len(patch) == 0 {
		return target
	}
	if merged := mergePatch(target, patch); len(merged) > 0 {
		return merged
	}
	return nil
}

func mergePatch(target, patch map[string]any) map[string]any {
	merged := make(map[string]any, len(target)+len(patch))
	maps.Copy(merged, target)
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(merged, name)
		case map[string]any:
			object, _ := merged[name].(map[string]any)
			merged[name] = mergePatch(object, value)
		default:
			merged[name] = value
		}
	}
	return merged
}
