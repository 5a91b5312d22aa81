// Answers scenarios of applies and updates with what Kubernetes' own field manager makes of them: the reference of
// recorded.test.ts. Reads scenarios as JSON lines, writes {"steps": [{"object": …} | {"error": …}]} lines.
// Times of its own are replaced by the step's.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var gvk = schema.GroupVersionKind{Group: "test.kubenode.io", Version: "v1", Kind: "Thing"}

type step struct {
	Op          string                 `json:"op"`
	Manager     string                 `json:"manager"`
	Subresource string                 `json:"subresource"`
	Force       bool                   `json:"force"`
	Owners      string                 `json:"owners"`
	Now         string                 `json:"now"`
	Object      map[string]interface{} `json:"object"`
	// Of an update with owners "given".
	ManagedFields []interface{} `json:"managedFields"`
}

type scenario struct {
	Schema *apiextensionsv1.JSONSchemaProps `json:"schema"`
	Reset  map[string][]string              `json:"reset"`
	Steps  []step                           `json:"steps"`
	// From this step on the schema is the other one.
	Later *struct {
		Schema *apiextensionsv1.JSONSchemaProps `json:"schema"`
		At     int                              `json:"at"`
	} `json:"later"`
}

type answer struct {
	Object map[string]interface{} `json:"object,omitempty"`
	Error  *failure               `json:"error,omitempty"`
}

type failure struct {
	Message string         `json:"message"`
	Status  *metav1.Status `json:"status,omitempty"`
}

type nop struct{}

func (nop) Convert(in, out, ctx interface{}) error { return fmt.Errorf("not used") }
func (nop) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	out := in.DeepCopyObject()
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{in.GetObjectKind().GroupVersionKind()})
	if !ok {
		return nil, fmt.Errorf("no kind")
	}
	out.GetObjectKind().SetGroupVersionKind(to)
	return out, nil
}
func (nop) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", fmt.Errorf("not used")
}
func (nop) Default(runtime.Object) {}
func (nop) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]interface{}{}}
	u.SetGroupVersionKind(kind)
	return u, nil
}

func managers(s scenario, kind *apiextensionsv1.JSONSchemaProps) (map[string]*managedfields.FieldManager, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.test.kubenode.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:    gvk.Group,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Scope:    apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", kind), version("v2", kind)},
		},
	}
	v1, err := builder.BuildOpenAPIV3(crd, "v1", builder.Options{})
	if err != nil {
		return nil, err
	}
	v2, err := builder.BuildOpenAPIV3(crd, "v2", builder.Options{})
	if err != nil {
		return nil, err
	}
	spec, err := builder.MergeSpecsV3(v1, v2)
	if err != nil {
		return nil, err
	}
	converter, err := managedfields.NewTypeConverter(spec.Components.Schemas, false)
	if err != nil {
		return nil, err
	}
	out := map[string]*managedfields.FieldManager{}
	for _, sub := range []string{"", "status", "scale"} {
		set := fieldpath.NewSet()
		for _, name := range s.Reset[sub] {
			parts := []interface{}{}
			for _, p := range strings.Split(name, ".") {
				parts = append(parts, p)
			}
			set.Insert(fieldpath.MakePathOrDie(parts...))
		}
		reset := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{"test.kubenode.io/v1": set, "test.kubenode.io/v2": set})
		m, err := managedfields.NewDefaultCRDFieldManager(converter, nop{}, nop{}, nop{}, gvk, gvk.GroupVersion(), sub, reset)
		if err != nil {
			return nil, err
		}
		out[sub] = m
	}
	return out, nil
}

func version(name string, kind *apiextensionsv1.JSONSchemaProps) apiextensionsv1.CustomResourceDefinitionVersion {
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: name, Served: true, Storage: name == "v1",
		Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: kind},
		Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
	}
}

func run(s scenario) ([]answer, error) {
	ms, err := managers(s, s.Schema)
	if err != nil {
		return nil, err
	}
	start := time.Now().Add(-time.Minute)
	var live *unstructured.Unstructured
	answers := []answer{}
	for at, st := range s.Steps {
		if s.Later != nil && s.Later.At == at {
			if ms, err = managers(s, s.Later.Schema); err != nil {
				return nil, err
			}
		}
		obj := &unstructured.Unstructured{Object: st.Object}
		before := live
		if before == nil {
			before = &unstructured.Unstructured{Object: map[string]interface{}{}}
			before.SetGroupVersionKind(gvk)
		}
		before = before.DeepCopy()
		m := ms[st.Subresource]
		var out runtime.Object
		var err error
		if st.Op == "apply" {
			out, err = m.Apply(before, obj, st.Manager, st.Force)
		} else {
			if live != nil {
				obj.SetUID(live.GetUID())
			}
			switch st.Owners {
			case "live":
				if live != nil {
					if mf, ok, _ := unstructured.NestedSlice(live.Object, "metadata", "managedFields"); ok {
						unstructured.SetNestedSlice(obj.Object, mf, "metadata", "managedFields")
					}
				}
			case "reset":
				unstructured.SetNestedSlice(obj.Object, []interface{}{}, "metadata", "managedFields")
			case "given":
				unstructured.SetNestedSlice(obj.Object, st.ManagedFields, "metadata", "managedFields")
			case "resetItem":
				unstructured.SetNestedSlice(obj.Object, []interface{}{map[string]interface{}{}}, "metadata", "managedFields")
			}
			// As UpdateNoErrors does from 1.36 on.
			out, err = m.Update(before, obj, st.Manager)
			if err != nil {
				obj.SetManagedFields(before.GetManagedFields())
				out, err = obj, nil
			}
		}
		if err != nil {
			f := &failure{Message: err.Error()}
			if se, ok := err.(*errors.StatusError); ok {
				st := se.Status()
				st.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
				f.Status = &st
			}
			answers = append(answers, answer{Error: f})
			continue
		}
		if live != nil {
			out, err = fieldmanager.IgnoreManagedFieldsTimestampsTransformer(context.Background(), out, live.DeepCopy())
			if err != nil {
				return nil, err
			}
		}
		next := out.(*unstructured.Unstructured).DeepCopy()
		if mf, ok, _ := unstructured.NestedSlice(next.Object, "metadata", "managedFields"); ok {
			for _, e := range mf {
				entry := e.(map[string]interface{})
				if t, ok := entry["time"].(string); ok {
					if parsed, err := time.Parse(time.RFC3339, t); err == nil && parsed.After(start) {
						entry["time"] = st.Now
					}
				}
			}
			unstructured.SetNestedSlice(next.Object, mf, "metadata", "managedFields")
		}
		answers = append(answers, answer{Object: next.DeepCopy().Object})
		next.SetUID("u1")
		live = next
	}
	return answers, nil
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	decoder := json.NewDecoder(in)
	encoder := json.NewEncoder(out)
	for decoder.More() {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			panic(err)
		}
		var s scenario
		if err := json.Unmarshal(raw, &s); err != nil {
			panic(err)
		}
		// Numbers as the server reads them: whole ones as integers.
		var numbers struct {
			Steps []struct {
				Object *unstructured.Unstructured `json:"object"`
			} `json:"steps"`
		}
		if err := json.Unmarshal(raw, &numbers); err != nil {
			panic(err)
		}
		for i := range s.Steps {
			s.Steps[i].Object = numbers.Steps[i].Object.Object
		}
		steps, err := run(s)
		if err != nil {
			panic(err)
		}
		if err := encoder.Encode(map[string]interface{}{"steps": steps}); err != nil {
			panic(err)
		}
	}
}
