#!/usr/bin/env bash
# Makes an authority and the webhook's serving certificate, writes the Secret's manifest, and prints
# the CA bundle for the chart. The authority's key is forgotten at once: the next run founds another.
#
#   ./generate-webhook-certs.sh
#   kubectl apply -f certs/webhook-tls-secret.yaml
#   helm install ... --set webhook.enabled=true --set webhook.caBundle="$(base64 -w0 < certs/ca.crt)"
#
# Environment: NAMESPACE, SERVICE_NAME, CERT_DIR, SECRET_NAME, CA_NAME, DAYS, and ADDRESSES: further
# host names and IP addresses with commas between them, for a webhook outside (docs/outside.md).
set -euo pipefail

NAMESPACE=${NAMESPACE:-gpu-scheduler-system}
SERVICE_NAME=${SERVICE_NAME:-gpu-scheduler-webhook}
CERT_DIR=${CERT_DIR:-./certs}
SECRET_NAME=${SECRET_NAME:-$SERVICE_NAME-tls}
CA_NAME=${CA_NAME:-gpu-scheduler webhook CA}
DAYS=${DAYS:-365}
ADDRESSES=${ADDRESSES:-}

command -v openssl >/dev/null || { echo "generate-webhook-certs: install openssl first" >&2; exit 1; }
umask 077
mkdir -p "$CERT_DIR"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

service="$SERVICE_NAME.$NAMESPACE.svc"
names="DNS:$SERVICE_NAME,DNS:$SERVICE_NAME.$NAMESPACE,DNS:$service,DNS:$service.cluster.local"
for address in ${ADDRESSES//,/ }; do
  kind=DNS
  [[ $address =~ ^[0-9.]+$ || $address == *:* ]] && kind=IP
  names+=",$kind:$address"
done

openssl req -x509 -newkey rsa:2048 -nodes -days "$DAYS" -subj "/CN=$CA_NAME" \
  -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" \
  -keyout "$work/ca.key" -out "$work/ca.crt" 2>/dev/null
openssl req -newkey rsa:2048 -nodes -subj "/CN=$service" \
  -keyout "$work/tls.key" -out "$work/tls.csr" 2>/dev/null
openssl x509 -req -in "$work/tls.csr" -CA "$work/ca.crt" -CAkey "$work/ca.key" -CAcreateserial \
  -days "$DAYS" -out "$work/tls.crt" 2>/dev/null -extfile <(
    echo "subjectAltName=$names"
    echo "extendedKeyUsage=serverAuth"
    echo "basicConstraints=critical,CA:FALSE"
    echo "keyUsage=critical,digitalSignature,keyEncipherment"
  )

encoded() { base64 <"$1" | tr -d '\n'; }

cat >"$work/webhook-tls-secret.yaml" <<EOF
apiVersion: v1
kind: Secret
metadata:
  name: $SECRET_NAME
  namespace: $NAMESPACE
type: kubernetes.io/tls
data:
  ca.crt: $(encoded "$work/ca.crt")
  tls.crt: $(encoded "$work/tls.crt")
  tls.key: $(encoded "$work/tls.key")
EOF
for name in ca.crt tls.crt tls.key webhook-tls-secret.yaml; do
  mv "$work/$name" "$CERT_DIR/$name"
done

echo "Written to $CERT_DIR: ca.crt, tls.crt, tls.key, webhook-tls-secret.yaml (valid for $DAYS days)" >&2
echo "CA bundle:" >&2
encoded "$CERT_DIR/ca.crt"
echo
