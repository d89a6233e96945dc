# One userland for the sessions of the os worker, laid on the worker's image: once for each. Its files belong to root and to other
# users, which only a worker that is root in its container can show. Made by task_images/build.py.
ARG BASE
ARG USERLAND
FROM ${USERLAND} AS userland
FROM ${BASE}
ARG NAME
ARG USERLAND_DIGEST
USER 0
COPY --from=userland / /opt/userlands/${NAME}-made/rootfs
RUN cd /opt/userlands \
 && printf '{"format": 1, "name": "%s", "digest": "%s", "made": "docker envhub/os-%s", "owner_uid": 0, "n_bytes": %s}\n' \
    "$NAME" "$USERLAND_DIGEST" "$NAME" "$(($(du -sk ${NAME}-made | cut -f1) * 1024))" > ${NAME}-made/image.json \
 && ln -s ${NAME}-made ${NAME}
